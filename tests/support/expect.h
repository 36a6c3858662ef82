// Expectations that several rooms share.
#pragma once

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

}  // namespace norma::test
