// Rows that random numbers never are: branches along the stream, opposite to it, and absent. The
// GPU takes them by branches of its own, beside ordinary rows in the same warp.
#include <tuple>

#include <gtest/gtest.h>

#include "norma/autograd/tape.h"
#include "norma/device/device.h"
#include "norma/ops/geodesic.h"
#include "norma/tensor/plain.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/values.h"

namespace norma {
namespace {

constexpr Device kGpu{DeviceKind::cuda};

/// What a branch is to its stream, one row of each after the other.
enum class Kin { other, equal, twice, opposite, nearly_opposite, no_branch, no_stream, neither };
constexpr Index kKins = 8;

/// Eighths between −2 and 2, which every type holds.
double eighths(Index row, Index col, Index stream) {
  const auto mixed = static_cast<std::uint64_t>(row * 7919 + col * 104729 + stream * 1299709);
  return static_cast<double>((mixed * 2654435761U >> 7) % 33) / 8 - 2;
}

double stream_at(Index row, Index col) {
  const Kin kin{static_cast<int>(row % kKins)};
  return kin == Kin::no_stream || kin == Kin::neither ? 0 : eighths(row, col, 1);
}
double branch_at(Index row, Index col) {
  const double h = stream_at(row, col);
  switch (Kin{static_cast<int>(row % kKins)}) {
    case Kin::equal:
      return h;
    case Kin::twice:
      return 2 * h;
    case Kin::opposite:
      return -2 * h;
    case Kin::nearly_opposite:
      return col % 4 == 0 ? -h - 0.125 : -h;
    case Kin::no_branch:
    case Kin::neither:
      return 0;
    case Kin::other:
    case Kin::no_stream:
      break;
  }
  return eighths(row, col, 2);
}

struct Result {
  OwnedTensor y, dh, db, dalpha;  // f64, on the CPU
};

Result run(Index rows, Index cols, GeodesicRule rule, DType dtype, Device device) {
  const DType vectors = wide(dtype);
  test::TestLeaf h(test::made({rows, cols}, dtype, device, stream_at));
  test::TestLeaf b(test::made({rows, cols}, dtype, device, branch_at));
  test::TestLeaf alpha(test::made({cols}, vectors, device, [](Index, Index c) {
    return (c % 3 == 0 ? -1 : 1) * (0.125 + static_cast<double>(c % 5) / 16);
  }));
  const OwnedTensor dy =
      test::made({rows, cols}, dtype, device, [](Index r, Index c) { return eighths(r, c, 3); });

  Tape tape(device);
  const Var y =
      geodesic(tape.watch(h), tape.watch(b), tape.watch(alpha), {.rule = rule, .alpha_mult = 1.5});
  tape.backward({&y, 1}, {&dy.tensor, 1}, {});
  const auto home = [](const Tensor& from) { return test::converted(from, DType::f64); };
  return {home(y.value()), home(h.grad), home(b.grad), home(alpha.grad)};
}

class GpuGeodesic : public testing::TestWithParam<std::tuple<GeodesicRule, DType>> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_P(GpuGeodesic, RareRowsAreThoseOfTheReference) {
  const auto [rule, dtype] = GetParam();
  const bool rough = dtype == DType::bf16;
  // Every team of threads a row may have, packs and single elements.
  for (const Index cols : {33, 64, 200, 512, 768, 1024, 1025, 1536, 2048, 4096, 4099, 8192}) {
    const Index rows = 5 * kKins;
    const Result want = run(rows, cols, rule, DType::f64, {});
    const Result got = run(rows, cols, rule, dtype, kGpu);
    EXPECT_TRUE(test::close(got.y.tensor, want.y.tensor, rough ? 4e-3 : 5e-6)) << cols;
    EXPECT_TRUE(test::close(got.dh.tensor, want.dh.tensor, rough ? 4e-3 : 2e-5)) << cols;
    EXPECT_TRUE(test::close(got.db.tensor, want.db.tensor, rough ? 4e-3 : 2e-5)) << cols;
    EXPECT_TRUE(test::close(got.dalpha.tensor, want.dalpha.tensor, rough ? 2e-4 : 2e-5)) << cols;
  }
}

INSTANTIATE_TEST_SUITE_P(
    RulesAndTypes,
    GpuGeodesic,
    testing::Combine(testing::Values(GeodesicRule::lerp, GeodesicRule::slerp, GeodesicRule::riem),
                     testing::Values(DType::f32, DType::bf16)));

}  // namespace
}  // namespace norma
