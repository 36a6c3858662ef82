// What the kernels of HeadOdds tell each other.
#pragma once

#include "norma/kernels/cuda/logit_bits.cuh"
#include "norma/kernels/head_odds.h"

namespace norma::kernels {

/// The parts of HeadOdds::scratch.
struct OddsNotes {
  float* references;    // c, in bits
  float* hits;          // the target's logit, as the product has it
  int* largest;         // of the logits, as ordered_bits(); of rows that are made again
  float* partials;      // (tiles of columns, rows): odds without the target
  unsigned* in_excess;  // of tiles of rows
  static OddsNotes of(float* scratch, Index rows, Index classes) {
    float* const partials = scratch + 3 * rows;
    return {scratch,
            scratch + rows,
            reinterpret_cast<int*>(scratch + 2 * rows),
            partials,
            reinterpret_cast<unsigned*>(partials + odds_tiles(classes) * rows)};
  }
};

/// Integers in the order of the numbers, and back.
__device__ inline int ordered_bits(float value) {
  const int bits = __float_as_int(value);
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}
__device__ inline float number_of(int ordered) {
  return __int_as_float(ordered < 0 ? ordered ^ 0x7FFFFFFF : ordered);
}

/// c of a row whose logits are compared with `z` bits. An ignored row has odds of 0, or
/// of 2^-126 where they are worked out; its share is 0.
__device__ inline float reference_of(int target, Index classes, float z) {
  if (target == -1) return INFINITY;
  return target < 0 || target >= classes ? NAN : z;
}

/// What c is beyond the target's logit, in bits: a class that is 2^-78 as likely as the target is
/// there yet, and the loss may be 95 nats before odds are in excess.
inline constexpr float kOddsRoom = 48;
/// Sums of odds from here on are in excess: share and odds, and the products of both, stay far from
/// where f32 and bf16 end. So are all odds where c is so large that quick ways lose digits.
inline constexpr float kOddsExcess = 0x1p90F;
inline constexpr float kOddsFar = 1 << 14;

/// Which tiles: all, against the reference; those in excess, for the largest logit; and those
/// against it.
enum class OddsTurn { all, largest, again };

}  // namespace norma::kernels
