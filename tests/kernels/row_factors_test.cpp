// Rows times numbers: PutScaled with and without shares, RowScale and its gradient.
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/kernels/row_scale.h"
#include "norma/kernels/scaled.h"

namespace norma::kernels {
namespace {

constexpr Index kRows = 37;
constexpr Index kCols = 29;
constexpr double kMult = 3.5;

using Numbers = std::vector<double>;

Numbers normals(Index count, std::uint64_t stream) {
  Numbers values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal_at({11, stream}, i);
  return values;
}
double& at(Numbers& values, Index r, Index c) {
  return values[static_cast<std::size_t>(r * kCols + c)];
}
template <class T>
Rows<T> rows(std::vector<std::remove_const_t<T>>& values) {
  return {values.data(), kRows, kCols, kCols};
}
double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

template <class T, class Who>
std::vector<T> put(Who who, const Numbers& wide, const Numbers& wide_shares, Into into) {
  std::vector<T> from(wide.begin(), wide.end());
  const std::vector<T> shares(wide_shares.begin(), wide_shares.end());
  std::vector<T> to(from.size(), 1);
  const T factor = static_cast<T>(kMult);
  run(who,
      PutScaled<T>{.from = rows<const T>(from),
                   .factor = &factor,
                   .shares = shares.empty() ? nullptr : shares.data(),
                   .to = rows<T>(to),
                   .into = into});
  return to;
}

TEST(PutScaled, TakesTheShareOfEachRow) {
  Numbers from = normals(kRows * kCols, 1);
  const Numbers all = normals(kRows, 2);
  for (const Numbers& shares : {Numbers{}, all}) {
    for (const Into into : {Into::set, Into::add}) {
      const auto cpu = put<float>(Cpu{}, from, shares, into);
      const auto ref = put<double>(Ref{}, from, shares, into);
      for (Index r = 0; r < kRows; ++r) {
        const double share = shares.empty() ? 1 : shares[static_cast<std::size_t>(r)];
        for (Index c = 0; c < kCols; ++c) {
          const auto i = static_cast<std::size_t>(r * kCols + c);
          const double want = kMult * share * from[i] + (into == Into::add ? 1 : 0);
          ASSERT_NEAR(ref[i], want, 1e-14 * (1 + std::abs(want))) << r << "," << c;
          ASSERT_NEAR(cpu[i], want, 1e-6F * (1 + std::abs(want))) << r << "," << c;
        }
      }
    }
  }
}

Numbers scaled(Numbers from, const Numbers& scale) {
  Numbers to(from.size());
  run(Ref{},
      RowScale<double>{.from = rows<const double>(from),
                       .scale = scale.data(),
                       .mult = kMult,
                       .to = rows<double>(to)});
  return to;
}
Numbers moved(Numbers values, const Numbers& direction, double by) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += by * direction[i];
  return values;
}

TEST(RowScale, MultipliesEachRowByItsScale) {
  Numbers from = normals(kRows * kCols, 1);
  Numbers scale = normals(kRows, 2);
  Numbers to = scaled(from, scale);
  for (Index r = 0; r < kRows; ++r) {
    for (Index c = 0; c < kCols; ++c) {
      const double want = kMult * scale[static_cast<std::size_t>(r)] * at(from, r, c);
      ASSERT_NEAR(at(to, r, c), want, 1e-14 * (1 + std::abs(want)));
    }
  }
}

// Of L = <scaled(from, scale), d>, which is linear in each of the two.
TEST(RowScale, GradientIsThatOfTheProduct) {
  Numbers from = normals(kRows * kCols, 1);
  const Numbers scale = normals(kRows, 2);
  const Numbers upstream = normals(kRows * kCols, 3);
  Numbers d = upstream;
  Numbers dscale(kRows, 17);
  run(Ref{},
      RowScaleBackward<double>{.from = rows<const double>(from),
                               .scale = scale.data(),
                               .mult = kMult,
                               .d = rows<double>(d),
                               .dscale = dscale.data()});
  const Numbers along_from = normals(kRows * kCols, 4);
  const Numbers along_scale = normals(kRows, 5);
  const auto loss = [&](double by_from, double by_scale) {
    return dot(scaled(moved(from, along_from, by_from), moved(scale, along_scale, by_scale)),
               upstream);
  };
  EXPECT_NEAR(loss(0.5, 0) - loss(-0.5, 0), dot(d, along_from), 1e-10);
  EXPECT_NEAR(loss(0, 0.5) - loss(0, -0.5), dot(dscale, along_scale), 1e-10);
}

}  // namespace
}  // namespace norma::kernels
