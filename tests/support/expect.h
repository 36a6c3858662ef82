// Expectations that several rooms share.
#pragma once

#include <cmath>
#include <exception>
#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

#include "norma/tensor/tensor.h"

namespace norma::test {

/// Passes when f() throws an E whose sentence holds every one of the texts.
template <class E, class F>
testing::AssertionResult throws(F&& f, std::initializer_list<std::string_view> texts) {
  try {
    f();
  } catch (const E& error) {
    const std::string_view sentence = error.what();
    for (const std::string_view text : texts) {
      if (sentence.find(text) == std::string_view::npos) {
        return testing::AssertionFailure() << '"' << text << "\" is not in: " << sentence;
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& other) {
    return testing::AssertionFailure() << "another kind of error came: " << other.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

/// The same shape and, element by element, the same bits.
testing::AssertionResult same_bits(const Tensor& got, const Tensor& want);

/// |got - want| <= limit * (|want| + rms(want)) for every element. NaN is never close.
testing::AssertionResult close(const Tensor& got, const Tensor& want, double limit);

/// |got(r, c) - want(r, c)| <= limit for every element.
template <class F>
testing::AssertionResult matches(const Tensor& got, F&& want, double limit = 1e-12) {
  for (Index r = 0; r < got.shape.rows(); ++r) {
    for (Index c = 0; c < got.shape.cols(); ++c) {
      const double g = value_at(got, r, c);
      const double w = want(r, c);
      const bool near = std::abs(g - w) <= limit;
      if (!near) {
        return testing::AssertionFailure() << "at (" << r << ", " << c << "): got " << g
                                           << ", want " << w << ", difference " << g - w;
      }
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace norma::test
