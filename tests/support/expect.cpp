#include "tests/support/expect.h"

#include <cmath>
#include <cstring>

namespace norma::test {

namespace {

/// "(3, 257) against (3, 256)" when the shapes differ.
testing::AssertionResult same_shape(const Tensor& got, const Tensor& want) {
  if (got.shape == want.shape) return testing::AssertionSuccess();
  return testing::AssertionFailure() << got.shape.text() << " against " << want.shape.text();
}

double rms(const Tensor& t) {
  double sum = 0;
  for (Index r = 0; r < t.shape.rows(); ++r) {
    for (Index c = 0; c < t.shape.cols(); ++c) sum += std::pow(value_at(t, r, c), 2);
  }
  return std::sqrt(sum / static_cast<double>(t.count()));
}

testing::AssertionResult differs(Index r, Index c, double got, double want) {
  return testing::AssertionFailure() << "at (" << r << ", " << c << "): got " << got << ", want "
                                     << want << ", difference " << got - want;
}

}  // namespace

testing::AssertionResult same_bits(const Tensor& got, const Tensor& want) {
  if (const auto shapes = same_shape(got, want); !shapes) return shapes;
  for (Index r = 0; r < want.shape.rows(); ++r) {
    for (Index c = 0; c < want.shape.cols(); ++c) {
      const double g = value_at(got, r, c);
      const double w = value_at(want, r, c);
      if (std::memcmp(&g, &w, sizeof g) != 0) return differs(r, c, g, w);
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult close(const Tensor& got, const Tensor& want, double limit) {
  if (const auto shapes = same_shape(got, want); !shapes) return shapes;
  const double scale = rms(want);
  for (Index r = 0; r < want.shape.rows(); ++r) {
    for (Index c = 0; c < want.shape.cols(); ++c) {
      const double g = value_at(got, r, c);
      const double w = value_at(want, r, c);
      const bool near = std::abs(g - w) <= limit * (std::abs(w) + scale);
      if (!near) return differs(r, c, g, w);
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace norma::test
