#include "tests/hopper/fiber.h"

#include <utility>
#include <vector>

// Leaves what a function must keep on the stack that it leaves, and says where; goes on where the
// other one was left.
extern "C" void norma_switch_stacks(void** left, void* to);
asm(R"(
.text
.globl norma_switch_stacks
.type norma_switch_stacks, @function
norma_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size norma_switch_stacks, .-norma_switch_stacks
)");

namespace norma::hopper {

namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr int kKept = 6;  // registers

void* home = nullptr;

std::vector<std::unique_ptr<std::byte[]>>& free_stacks() {
  static std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

}  // namespace

void Fiber::start(void (*begin)()) {
  if (free_stacks().empty()) {
    stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  } else {
    stack_ = std::move(free_stacks().back());
    free_stacks().pop_back();
  }
  // operator new's alignment is that of a stack.
  auto** const at = reinterpret_cast<void**>(stack_.get() + kStackBytes) - 2;
  at[0] = reinterpret_cast<void*>(begin);
  at[1] = nullptr;  // whom it would return to
  for (int i = 1; i <= kKept; ++i) at[-i] = nullptr;
  left_ = at - kKept;
}

void Fiber::go_on() { norma_switch_stacks(&home, left_); }
void Fiber::go_home() { norma_switch_stacks(&left_, home); }
void Fiber::end() { free_stacks().push_back(std::move(stack_)); }

}  // namespace norma::hopper
