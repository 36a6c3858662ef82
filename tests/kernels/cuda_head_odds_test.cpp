// The head's loss from odds: more tiles than the GPU has at work at once, ends of tiles, and rows
// that random numbers never are: ignored, certain, with odds in excess, so large that a bit is
// worth more than one.
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <utility>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/bf16.h"
#include "norma/ops/head_loss.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

enum class Kind { ordinary, certain, ignored, strange };

struct Case {
  Index rows;
  Index width;
  Index classes;
  Index at_a_time;
  double strange;  // what some rows are multiplied by; 0: none are
  double z_loss = 0;
  bool scaled = false;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << "x" << c.width << "x" << c.classes << " strange " << c.strange
             << (c.scaled ? " scaled" : "");
}

Kind kind_of(const Case& c, Index row) {
  if (row % 7 == 3) return Kind::certain;
  if (row % 11 == 5) return Kind::ignored;
  // Not in every tile of rows.
  return c.strange != 0 && row % 29 == 13 && row / 256 % 2 == 0 ? Kind::strange : Kind::ordinary;
}
Index target_of(const Case& c, Index row) {
  return static_cast<Index>(static_cast<std::uint64_t>(row * 7919 + 13) * 2654435761U >> 7) %
         c.classes;
}

OwnedTensor rounded(OwnedTensor values) {
  return test::converted(test::converted(values.tensor, DType::bf16).tensor, DType::f64);
}

struct Inputs {
  OwnedTensor x, weight, targets;  // numbers that bf16 holds
  OwnedTensor scale;               // powers of 2: the scaled weight is one that bf16 holds too
  explicit Inputs(const Case& c)
      : x(test::normals({c.rows, c.width}, DType::f64, 1)),
        weight(rounded(test::normals(
            {c.classes, c.width}, DType::f64, 2, 1 / std::sqrt(static_cast<double>(c.width))))),
        targets(test::made({c.rows},
                           DType::i32,
                           {},
                           [&](Index, Index r) {
                             return kind_of(c, r) == Kind::ignored
                                        ? -1
                                        : static_cast<double>(target_of(c, r));
                           })),
        scale(test::made({c.classes}, DType::f64, {}, [](Index, Index v) {
          return v % 3 == 0 ? 0.125 : v % 3 == 1 ? 0.25 : 0.5;
        })) {
    for (Index r = 0; r < c.rows; ++r) {
      for (Index i = 0; i < c.width; ++i) {
        const double own = value_at(x.tensor, r, i);
        const double like_target = 24 * value_at(weight.tensor, target_of(c, r), i);
        if (kind_of(c, r) == Kind::certain) set_value(x.tensor, r, i, own / 8 + like_target);
        if (kind_of(c, r) == Kind::strange) set_value(x.tensor, r, i, own * c.strange);
      }
    }
    x = rounded(std::move(x));
  }
};

struct Result {
  OwnedTensor losses, dx, dweight, dscale;  // f64, on the CPU
  std::size_t taken;                        // bytes of the tape
};

Result run(const Case& c, const Inputs& in, DType dtype, Device device) {
  const auto leaf_of = [&](const Tensor& values, DType type, DType grad) {
    return test::TestLeaf(
        test::made(values.shape,
                   type,
                   device,
                   [&](Index row, Index col) { return value_at(values, row, col); }),
        grad);
  };
  test::TestLeaf x = leaf_of(in.x.tensor, dtype, dtype);
  test::TestLeaf weight = leaf_of(in.weight.tensor, dtype, wide(dtype));
  test::TestLeaf scale = leaf_of(in.scale.tensor, wide(dtype), wide(dtype));
  const OwnedTensor targets = test::copy_of(in.targets.tensor, device);
  const OwnedTensor seed = test::made({1}, wide(dtype), device, [](Index, Index) { return 3; });
  Tape tape(device);
  const CrossEntropyResult result =
      head_loss(tape.watch(x),
                tape.watch(weight),
                tape.constant(targets.tensor),
                c.scaled ? tape.watch(scale) : Var{},
                {.loss = {.z_loss = c.z_loss, .scale_mult = 4}, .rows = c.at_a_time});
  OwnedTensor losses = test::converted(result.token_losses.value(), DType::f64);
  tape.backward({&result.loss, 1}, {&seed.tensor, 1}, {});
  return {std::move(losses),
          test::converted(x.grad, DType::f64),
          test::converted(weight.grad, DType::f64),
          test::converted(scale.grad, DType::f64),
          tape.arena().touched()};
}

double row_sum(const Tensor& of, Index row, const auto& f) {
  double sum = 0;
  for (Index c = 0; c < of.shape.cols(); ++c) sum += f(row, c);
  return sum;
}

class GpuHeadOdds : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_P(GpuHeadOdds, EveryRowIsThatOfTheReference) {
  const Case& c = GetParam();
  const Inputs in(c);
  const Result want = run(c, in, DType::f64, {});
  const Result got = run(c, in, DType::bf16, kGpu);
  for (Index r = 0; r < c.rows; ++r) {
    const double loss = value_at(want.losses.tensor, 0, r);
    // A logit is a sum in f32 of products that are as large as it may be.
    const double size = kind_of(c, r) == Kind::strange ? c.strange : 1;
    ASSERT_NEAR(value_at(got.losses.tensor, 0, r), loss, 2e-5 * (1 + loss) + 1e-6 * size)
        << "row " << r;
    const auto gap = [&](Index row, Index col) {
      return std::abs(value_at(got.dx.tensor, row, col) - value_at(want.dx.tensor, row, col));
    };
    const auto own = [&](Index row, Index col) {
      return std::abs(value_at(want.dx.tensor, row, col));
    };
    // Where logits are coarse, which of the largest is it may be another.
    if (size < 1e5) {
      ASSERT_LE(row_sum(want.dx.tensor, r, gap), 1e-2 * row_sum(want.dx.tensor, r, own) + 1e-12)
          << "row " << r;
    }
  }
  if (c.strange > 1e5) return;
  EXPECT_TRUE(test::close(got.dweight.tensor, want.dweight.tensor, 2e-2));
  if (c.scaled) {
    EXPECT_TRUE(test::close(got.dscale.tensor, want.dscale.tensor, 2e-2));
  }
  for (const auto& [one, other] : {std::pair{got.dx.tensor, want.dx.tensor},
                                   std::pair{got.dweight.tensor, want.dweight.tensor},
                                   std::pair{got.dscale.tensor, want.dscale.tensor}}) {
    if (test::dot(other, other) > 0) {
      EXPECT_NEAR(test::dot(one, other) / test::dot(other, other), 1, 1e-3);
    }
  }
}

TEST_P(GpuHeadOdds, TheSameBitsTwice) {
  const Inputs in(GetParam());
  const Result one = run(GetParam(), in, DType::bf16, kGpu);
  const Result other = run(GetParam(), in, DType::bf16, kGpu);
  EXPECT_TRUE(test::same_bits(one.losses.tensor, other.losses.tensor));
  EXPECT_TRUE(test::same_bits(one.dx.tensor, other.dx.tensor));
  EXPECT_TRUE(test::same_bits(one.dweight.tensor, other.dweight.tensor));
  EXPECT_TRUE(test::same_bits(one.dscale.tensor, other.dscale.tensor));
}

// Of 60 the odds of many targets are in excess; of 1e8 a logit's last bit is worth 8.
INSTANTIATE_TEST_SUITE_P(Cases,
                         GpuHeadOdds,
                         testing::Values(Case{300, 64, 520, 0, 0},
                                         Case{300, 72, 520, 100, 0, 0.01},
                                         Case{2100, 256, 4104, 0, 0},
                                         Case{4900, 64, 1032, 0, 60},
                                         Case{600, 320, 776, 0, 60, 0.001},
                                         Case{700, 136, 776, 300, 0, 0.01, true},
                                         Case{600, 64, 776, 0, 1e8}));

TEST(GpuHeadOddsTarget, ThatIsNoClassMakesTheLossNotANumber) {
  NORMA_NEEDS_GPU();
  const Case c{300, 64, 520, 0, 0};
  Inputs in(c);
  set_value(in.targets.tensor, 0, 17, 520);
  const Result got = run(c, in, DType::bf16, kGpu);
  for (Index r = 0; r < c.rows; ++r) {
    EXPECT_EQ(std::isnan(value_at(got.losses.tensor, 0, r)), r == 17) << r;
  }
}

TEST(GpuHeadOddsPlan, TakesWhatIsTakenWhereTheLastPartIsSmaller) {
  NORMA_NEEDS_GPU();
  for (const bool scaled : {false, true}) {
    const Case c{1000, 64, 520, 255, 0, 0, scaled};
    const Inputs in(c);
    const std::size_t taken = run(c, in, DType::bf16, kGpu).taken;
    const PlanningScope planning;
    EXPECT_EQ(run(c, in, DType::bf16, kGpu).taken, taken);
  }
}

// 1 + 2ζ·lse = 0: what a row's logits but the target's get is nothing, and the target's own is not
// worked out by a division by it.
TEST(GpuHeadOddsShare, MayBeTakenAwayByTheZLoss) {
  NORMA_NEEDS_GPU();
  Case c{300, 64, 520, 0, 0};
  Inputs in(c);
  for (Index i = 0; i < c.width; ++i) {
    for (Index r = 0; r < c.rows; ++r) set_value(in.x.tensor, r, i, -0.125);
    for (Index v = 0; v < c.classes; ++v) set_value(in.weight.tensor, v, i, 1);
  }
  c.z_loss = -0.5 / (std::log(static_cast<double>(c.classes)) - 8);
  const Result want = run(c, in, DType::f64, {});
  const Result got = run(c, in, DType::bf16, kGpu);
  EXPECT_TRUE(test::close(got.dx.tensor, want.dx.tensor, 1e-2));
  EXPECT_TRUE(test::close(got.dweight.tensor, want.dweight.tensor, 1e-2));
}

}  // namespace
}  // namespace norma
