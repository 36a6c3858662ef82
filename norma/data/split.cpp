#include "norma/data/split.h"

#include <algorithm>
#include <cmath>

#include "norma/base/rng.h"

namespace norma {

namespace {

constexpr std::uint64_t kSplitStream = 0x5EED0003;

std::uint64_t start_of(std::uint64_t stretch, double val_fraction) {
  constexpr double kMost = 1e18;  // nobody has as many documents, and it fits into 64 bits
  const double start = std::ceil(static_cast<double>(stretch) / val_fraction);
  return static_cast<std::uint64_t>(std::min(start, kMost));
}

}  // namespace

bool is_validation(std::uint64_t document, double val_fraction, std::uint64_t seed) {
  if (val_fraction <= 0) return false;
  auto stretch = static_cast<std::uint64_t>(static_cast<double>(document) * val_fraction);
  while (start_of(stretch, val_fraction) > document) --stretch;  // the product was rounded up
  while (start_of(stretch + 1, val_fraction) <= document) ++stretch;
  const std::uint64_t first = start_of(stretch, val_fraction) + (stretch == 0 ? 1 : 0);
  const std::uint64_t end = start_of(stretch + 1, val_fraction);
  return document == first + random_word({seed, kSplitStream}, stretch) % (end - first);
}

}  // namespace norma
