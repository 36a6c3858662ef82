// Matrices for kernels that run on the host.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "norma/base/bf16.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// Rows of bf16 with some columns behind those that anyone uses.
class HostRows {
 public:
  static constexpr Index kBehind = 8;
  static constexpr float kThere = 7;  // what they and everything else hold before

  HostRows(Index rows, Index cols)
      : rows_(rows),
        cols_(cols),
        numbers_(static_cast<std::size_t>(rows * (cols + kBehind)), to_bf16(kThere)) {}

  void draw(std::uint64_t seed, float deviation = 1) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal(0, deviation);
    for (Bf16& one : numbers_) one = to_bf16(normal(random));
  }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  Rows<Bf16> all() { return part(0, cols_); }
  Index stride() const { return cols_ + kBehind; }
  Bf16* data() { return numbers_.data(); }
  double at(Index row, Index col) const {
    return to_float(numbers_[static_cast<std::size_t>(row * stride() + col)]);
  }
  Rows<Bf16> part(Index column, Index width) {
    return {numbers_.data() + column, rows_, width, stride()};
  }
  friend bool operator==(const HostRows&, const HostRows&) = default;
  bool is_untouched_behind() const {
    for (Index r = 0; r < rows_; ++r) {
      for (Index c = cols_; c < stride(); ++c) {
        if (at(r, c) != double{kThere}) return false;
      }
    }
    return true;
  }

 private:
  Index rows_;
  Index cols_;
  std::vector<Bf16> numbers_;
};

}  // namespace norma::kernels
