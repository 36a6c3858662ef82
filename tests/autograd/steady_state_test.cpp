// From the third step on, a step takes nothing from the heap and no buffer grows.
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "norma/autograd/recompute.h"
#include "norma/base/threads.h"
#include "norma/ops/rms_norm.h"
#include "tests/support/heap_count.h"
#include "tests/support/toy_ops.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::HeapCount;
using test::TestLeaf;

/// Residual blocks of rms_norm with a split inside; every other block is recomputed.
class SmallModel {
 public:
  void step(Index number) {
    tape_.reset(number);
    for (TestLeaf* leaf : {&x_, &gain_}) leaf->fresh = true;
    Var h = test::scaled(tape_.watch(x_), 2);
    for (int i = 0; i < 6; ++i) {
      const Tape::Label label(tape_, "block");
      const auto block = [gain = &gain_](std::span<const Var> in) {
        const Var n = rms_norm(in[0], in[0].tape().watch(*gain));
        const auto parts = test::split(n, {20, 44});
        return test::plus(in[0], test::join(rms_norm(parts[0], {}), parts[1]));
      };
      h = i % 2 == 0 ? block({&h, 1}) : recompute(tape_, {h}, block);
    }
    tape_.backward(test::half_square(h));
  }
  const Tape& tape() const { return tape_; }

 private:
  Tape tape_;
  TestLeaf x_{{150, 64}, DType::f32, 1};  // large enough for the kernels to use all threads
  TestLeaf gain_{{64}, DType::f32, 2};
};

TEST(SteadyState, TheCounterCounts) {
  if (!HeapCount::possible()) GTEST_SKIP() << "a sanitizer owns the heap";
  const HeapCount heap;
  EXPECT_EQ(heap.calls(), 0);
  const OwnedTensor buffer({100}, DType::f32);  // aligned_alloc
  EXPECT_GE(heap.calls(), 1);
  const Index before = heap.calls();
  const std::string text(100, 'x');  // operator new inside libstdc++
  EXPECT_EQ(heap.calls(), before + 1);
  const auto number = std::make_unique<int>(5);
  EXPECT_EQ(heap.calls(), before + 2) << text.size() << *number;
}

TEST(SteadyState, TheThirdStepTakesNothingFromTheHeap) {
  if (!HeapCount::possible()) GTEST_SKIP() << "a sanitizer owns the heap";
  for (const int threads : {1, 2}) {
    const ThreadScope scope(threads);
    SmallModel model;
    model.step(1);
    model.step(2);
    const HeapCount heap;
    model.step(3);
    model.step(4);
    EXPECT_EQ(heap.calls(), 0) << threads << " threads";
  }
}

TEST(SteadyState, TheArenaDoesNotGrowAfterTheFirstStep) {
  SmallModel model;
  model.step(1);
  const std::size_t capacity = model.tape().arena().capacity();
  const std::size_t peak = model.tape().arena().peak();
  for (Index i = 2; i < 6; ++i) {
    model.step(i);
    EXPECT_EQ(model.tape().arena().capacity(), capacity) << "step " << i;
    EXPECT_EQ(model.tape().arena().peak(), peak) << "step " << i;
  }
}

}  // namespace
}  // namespace norma
