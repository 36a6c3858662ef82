// A matrix of rows in memory: consecutive rows are `stride` elements apart, columns contiguous.
#pragma once

#include <type_traits>

#include "norma/base/types.h"

namespace norma::kernels {

template <class T>
struct Rows {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;

  constexpr T* row(Index r) const { return data + r * stride; }
  constexpr T& operator()(Index r, Index c) const { return data[r * stride + c]; }
  constexpr explicit operator bool() const { return data != nullptr; }
  // NOLINTNEXTLINE(google-explicit-constructor): a view of T is a view of const T.
  constexpr operator Rows<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

}  // namespace norma::kernels
