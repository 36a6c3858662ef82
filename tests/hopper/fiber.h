// Stacks that take turns on one thread of the host. A switch is a handful of instructions of
// x86-64: the C library's asks the kernel about signals each time, and a test has millions.
#pragma once

#include <cstddef>
#include <memory>

namespace norma::hopper {

class Fiber {
 public:
  /// begin() must never return; it leaves for the last time through go_home().
  void start(void (*begin)());
  bool started() const { return stack_ != nullptr; }
  /// By who is at home: goes on where the fiber left.
  void go_on();
  /// By the fiber.
  void go_home();
  /// Its stack is free for the next; by who is at home.
  void end();

 private:
  std::unique_ptr<std::byte[]> stack_;
  void* left_ = nullptr;
};

}  // namespace norma::hopper
