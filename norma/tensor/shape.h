// A list of at most kMaxRank sizes, held in place so that tensors stay trivially copyable.
#pragma once

#include <array>
#include <initializer_list>
#include <string>

#include "norma/base/types.h"

namespace norma {

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  constexpr Shape() = default;
  /// Throws RequestError on a size below 1, too many dimensions, or a product that overflows.
  Shape(std::initializer_list<Index> sizes);

  int rank() const { return rank_; }
  /// Size of dimension i; negative i counts from the end.
  Index operator[](int i) const { return sizes_[static_cast<std::size_t>(i < 0 ? rank_ + i : i)]; }
  Index count() const;                                         // all elements; 1 for a scalar
  Index cols() const { return rank_ == 0 ? 1 : (*this)[-1]; }  // the last dimension
  Index rows() const { return count() / cols(); }              // everything before it
  Shape with_last(Index cols) const;  // the same rows, another last dimension
  Shape without_last() const;
  void append(Index size);   // one more dimension at the end
  std::string text() const;  // "(3, 257)"

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Index, kMaxRank> sizes_{};
  int rank_ = 0;
};

}  // namespace norma
