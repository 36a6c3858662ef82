#include "norma/kernels/optimizer.h"

#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"

namespace norma::kernels {
namespace {

template <class T>
std::vector<T> normals(std::size_t count, std::uint64_t stream) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<float>(normal_at({5, stream}, i)));
  }
  return values;
}

/// The partial sums of one run.
template <class T, class Who>
std::vector<double> partials(Who who, const std::vector<T>& g) {
  const auto count = static_cast<Index>(g.size());
  std::vector<double> sums(static_cast<std::size_t>(norm_pieces(count)), -1);
  run(who, SquaredNorm<T>{g.data(), count, sums.data()});
  return sums;
}

double total(const std::vector<double>& sums) {
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

TEST(SquaredNorm, IsTheSumOfSquares) {
  for (const std::size_t count : {1, 3, 255, 257, 16384, 16385, 100003}) {
    const auto g = normals<float>(count, 1);
    double want = 0;
    for (const float x : g) want += static_cast<double>(x) * static_cast<double>(x);
    EXPECT_NEAR(total(partials(Ref{}, g)), want, 1e-12 * want) << count;
    EXPECT_NEAR(total(partials(Cpu{}, g)), want, 2e-6 * want) << count;
    EXPECT_NEAR(total(partials(Ref{}, normals<double>(count, 1))), want, 1e-12 * want) << count;
  }
}

TEST(SquaredNorm, OneAndTwoThreadsGiveTheSameBits) {
  const auto g = normals<float>(333333, 2);
  const ThreadScope one(1);
  const std::vector<double> alone = partials(Cpu{}, g);
  const ThreadScope two(2);
  EXPECT_EQ(partials(Cpu{}, g), alone);
}

TEST(SquaredNorm, ManySmallEntriesBesideALargeOneAreNotLost) {
  std::vector<float> g(100000, 1e-3f);
  g[0] = 30.0f;
  EXPECT_NEAR(total(partials(Cpu{}, g)), 900 + 99999e-6, 1e-3);
}

}  // namespace
}  // namespace norma::kernels
