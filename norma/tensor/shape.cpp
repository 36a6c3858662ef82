#include "norma/tensor/shape.h"

#include <limits>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

Shape::Shape(std::initializer_list<Index> sizes) {
  for (const Index size : sizes) append(size);
}

void Shape::append(Index size) {
  if (rank_ == kMaxRank) {
    throw RequestError(say("a shape has at most ", kMaxRank, " dimensions."));
  }
  if (size < 1) {
    throw RequestError(
        say("every dimension must be 1 or more, got ", size, " in dimension ", rank_, "."));
  }
  // Bytes are counted in 64 bits, so elements must leave room for the widest type.
  constexpr Index kMost = std::numeric_limits<Index>::max() / 16;
  if (count() > kMost / size) {
    throw RequestError(
        say("a shape ", text(), " times ", size, " has too many elements to count."));
  }
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

Index Shape::count() const {
  Index product = 1;
  for (int i = 0; i < rank_; ++i) product *= (*this)[i];
  return product;
}

Shape Shape::with_last(Index cols) const {
  Shape other = without_last();
  other.append(cols);
  return other;
}

Shape Shape::without_last() const {
  Shape other;
  for (int i = 0; i + 1 < rank_; ++i) other.append((*this)[i]);
  return other;
}

std::string Shape::text() const {
  std::string joined = "(";
  for (int i = 0; i < rank_; ++i) joined += say(i == 0 ? "" : ", ", (*this)[i]);
  return joined + ")";
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank_ != b.rank_) return false;
  for (int i = 0; i < a.rank_; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace norma
