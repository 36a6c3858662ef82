// Run-time choices turned into compile-time ones, so that inner loops hold no branches.
#pragma once

#include <type_traits>

namespace norma::kernels {

/// Calls f(std::bool_constant<a>{}, std::bool_constant<b>{}).
template <class F>
void with_flags(bool a, bool b, F&& f) {
  if (a && b) {
    f(std::true_type{}, std::true_type{});
  } else if (a) {
    f(std::true_type{}, std::false_type{});
  } else if (b) {
    f(std::false_type{}, std::true_type{});
  } else {
    f(std::false_type{}, std::false_type{});
  }
}

}  // namespace norma::kernels
