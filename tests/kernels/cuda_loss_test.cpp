// Cross entropy of more rows than the GPU has at work at once, so that blocks go on from row to row
// and fetch ahead, with rows that random numbers never are: far from zero, so large that a bit is
// worth more than one, with classes ruled out, ignored, certain.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/base/bf16.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/ops/cross_entropy.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

/// What a row is like, one after the other. Scales take the first four: those of the others would
/// have no gradient, or none that leaves anything of the rest.
enum class Kind { ordinary, far, ignored, certain, coarse, ruled_out };
Kind kind_of(Index row, bool scaled) { return Kind{static_cast<int>(row % (scaled ? 4 : 6))}; }

std::uint64_t mixed(Index row, Index col) {
  const auto both = static_cast<std::uint64_t>(row * 7919 + col * 104729);
  return both * 2654435761U >> 7;
}

/// One that is never ruled out.
Index target_of(Index row, Index classes) {
  return static_cast<Index>(mixed(row, -1) % static_cast<std::uint64_t>(classes)) / 4 * 4;
}

/// Numbers that bf16 holds.
double logit_at(Index row, Index col, Index classes, bool scaled) {
  const std::uint64_t any = mixed(row, col);
  const double ordinary = static_cast<double>(any % 65) / 8 - 4;
  switch (kind_of(row, scaled)) {
    case Kind::far:
      return 1024 + 8 * static_cast<double>(any % 3);
    case Kind::ignored:
      return std::numeric_limits<double>::quiet_NaN();  // it may hold anything
    case Kind::certain:
      return col == target_of(row, classes) ? 16 : ordinary;
    case Kind::coarse:
      return std::ldexp(128 + static_cast<double>(any % 3), 17);
    case Kind::ruled_out:
      return col % 4 == 0 ? ordinary : std::ldexp(-1.0, 60);
    case Kind::ordinary:
      break;
  }
  return ordinary;
}

OwnedTensor home(const Tensor& from) { return test::converted(from, DType::f64); }

struct Result {
  OwnedTensor losses, du;  // f64, on the CPU
  std::optional<OwnedTensor> dscale;
};

Result run(Index rows, Index classes, bool scaled, DType dtype, Device device) {
  test::TestLeaf u(test::made({rows, classes}, dtype, device, [&](Index r, Index c) {
    return logit_at(r, c, classes, scaled);
  }));
  test::TestLeaf scale(test::made({classes}, wide(dtype), device, [](Index, Index c) {
    return 0.25 + static_cast<double>(c % 5) / 16;
  }));
  const OwnedTensor ids = test::made({rows}, DType::i32, {}, [&](Index, Index r) {
    const bool ignored = kind_of(r, scaled) == Kind::ignored;
    return ignored ? -1 : static_cast<double>(target_of(r, classes));
  });
  const OwnedTensor targets = test::copy_of(ids.tensor, device);
  const OwnedTensor one = test::made({1}, wide(dtype), device, [](Index, Index) { return 1; });

  Tape tape(device);
  const auto of = [&](Var logits, Var factors) {
    return cross_entropy(
        logits, tape.constant(targets.tensor), scaled ? factors : Var{}, {.scale_mult = 2});
  };
  const Var alone = of(tape.constant(u.value), tape.constant(scale.value)).token_losses;
  const CrossEntropyResult result = of(tape.watch(u), tape.watch(scale));
  OwnedTensor losses = home(result.token_losses.value());
  // Where no gradient is asked for, they are the same.
  EXPECT_TRUE(test::same_bits(home(alone.value()).tensor, losses.tensor));
  tape.backward({&result.loss, 1}, {&one.tensor, 1}, {});
  return {std::move(losses), home(u.grad), scaled ? std::optional(home(scale.grad)) : std::nullopt};
}

/// Σ |got − want| of a row beside Σ |want|.
double gap_of_row(const Tensor& got, const Tensor& want, Index row) {
  double gap = 0;
  double size = 0;
  for (Index c = 0; c < want.shape.cols(); ++c) {
    gap += std::abs(value_at(got, row, c) - value_at(want, row, c));
    size += std::abs(value_at(want, row, c));
  }
  return size == 0 ? gap : gap / size;
}

struct Size {
  Index rows;
  Index classes;
};

class GpuLoss : public testing::TestWithParam<std::tuple<Size, bool>> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_P(GpuLoss, EveryRowIsThatOfTheReference) {
  const auto [size, scaled] = GetParam();
  const Result want = run(size.rows, size.classes, scaled, DType::f64, {});
  const Result got = run(size.rows, size.classes, scaled, DType::bf16, kGpu);
  for (Index r = 0; r < size.rows; ++r) {
    const double loss = value_at(want.losses.tensor, 0, r);
    ASSERT_NEAR(value_at(got.losses.tensor, 0, r), loss, 2e-5 * (1 + loss)) << "row " << r;
    ASSERT_LE(gap_of_row(got.du.tensor, want.du.tensor, r), 4e-3) << "row " << r;
  }
  if (scaled) {
    EXPECT_TRUE(test::close(got.dscale->tensor, want.dscale->tensor, 2e-4));
  }
}

std::string test_name(const testing::TestParamInfo<GpuLoss::ParamType>& info) {
  const auto [size, scaled] = info.param;
  return say(size.rows, "x", size.classes, scaled ? "_scaled" : "");
}

// Rows of several blocks to a multiprocessor, of one that fetches ahead, of two that cannot.
INSTANTIATE_TEST_SUITE_P(Sizes,
                         GpuLoss,
                         testing::Combine(testing::Values(Size{6500, 256},
                                                          Size{800, 24008},
                                                          Size{800, 50304},
                                                          Size{300, 64000}),
                                          testing::Bool()),
                         test_name);

}  // namespace
}  // namespace norma
