// In place of the page of this name: what a warp's tensor cores do, on the host.
#pragma once

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels::mma {

/// Element (row, column) of matrix m, whose rows the lanes have named.
inline Bf16 matrix_at(const hopper::OfLanes& rows, unsigned m, unsigned row, unsigned column) {
  return hopper::of_lane<const Bf16*>(rows, 8 * m + row)[column];
}
inline unsigned pair_of(Bf16 low, Bf16 high) {
  return static_cast<unsigned>(low.bits) | static_cast<unsigned>(high.bits) << 16;
}
inline void load_matrices(const Bf16* row, unsigned (&to)[4]) {
  const hopper::OfLanes& rows = hopper::exchange_one(row);
  const auto lane = static_cast<unsigned>(hopper::thread() % 32);
  for (unsigned m = 0; m < 4; ++m) {
    const unsigned column = lane % 4 * 2;
    to[m] = pair_of(matrix_at(rows, m, lane / 4, column), matrix_at(rows, m, lane / 4, column + 1));
  }
}
inline void load_turned_matrices(const Bf16* row, unsigned (&to)[4]) {
  const hopper::OfLanes& rows = hopper::exchange_one(row);
  const auto lane = static_cast<unsigned>(hopper::thread() % 32);
  for (unsigned m = 0; m < 4; ++m) {
    const unsigned column = lane % 4 * 2;
    to[m] = pair_of(matrix_at(rows, m, column, lane / 4), matrix_at(rows, m, column + 1, lane / 4));
  }
}

inline void multiply_add(const unsigned (&a)[4], unsigned b0, unsigned b1, float (&c)[4]) {
  hopper::Words mine{};
  std::memcpy(mine.at, a, sizeof mine.at);
  hopper::OfLanes left;
  std::memcpy(left, hopper::exchange(mine), sizeof left);
  const hopper::OfLanes& right = hopper::exchange({{b0, b1, 0, 0}});
  const int lane = hopper::thread() % 32;
  for (int i = 0; i < 4; ++i) {
    const int column = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (int k = 0; k < 16; ++k) {
      const int holder = k % 8 / 2;
      const float l = half_of(left[lane / 4 * 4 + holder].at[2 * (k / 8) + i / 2], k % 2);
      const float r = half_of(right[column * 4 + holder].at[k / 8], k % 2);
      sum += l * r;
    }
    c[i] = sum;
  }
}

}  // namespace norma::kernels::mma
