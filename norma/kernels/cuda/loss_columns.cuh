// What a thread does with its columns of the logits in cross_entropy with a scale per class. Here
// the gradient of z is counted in bits, too: log2(e) is in the factors.
#pragma once

#include "norma/kernels/cuda/loss_quick.cuh"

namespace norma::kernels {

/// What the gradient of a row needs: dz = grow·2^(z − top), but `hit` at the target.
struct alignas(16) RowFate {
  float top;
  float grow;
  float hit;
  int target;  // −1: ignored
};

struct OwnColumns {
  static constexpr int N = kPack<Bf16>;
  static constexpr int kEach = 4;    // packs
  static constexpr int kWarps = 15;  // with the one that leads, all have 128 registers
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kMostPacks = kThreads * kEach;  // of a block
  using LogitPack = Pack<Bf16, N>;

  float factors[kEach][N];  // z = factor·u
  float sums[kEach][N];     // of dz·u
  int thread;
  int packs;  // of this block, one at least

  __device__ int pack(int j) const { return thread + j * kThreads; }
  __device__ bool has(int j) const { return pack(j) < packs; }
  /// Whether one of the block's columns belongs to this warp: all its lanes get the same answer.
  __device__ bool is_near(unsigned column) const {
    return column < static_cast<unsigned>(packs * N) &&
           column / (32 * N) % kWarps == static_cast<unsigned>(thread) / 32;
  }

  /// Without asking whether there are so many, so that the reads overlap.
  __device__ void read_logits(const LogitPack* logits, LogitPack (&to)[kEach]) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j) to[j] = logits[min(pack(j), packs - 1)];
  }

  /// `logits` and the column `target` count from the block's first class; `target` may lie outside.
  /// By whole warps, whose part it gives to all lanes.
  __device__ Part look(const LogitPack* logits, unsigned target) const {
    LogitPack kept[kEach];
    read_logits(logits, kept);
    float tops[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      unpack(kept[j], u);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        tops[k % 2] = fmaxf(tops[k % 2], __fmul_rn(factors[j][k], u[k]));
      }
    }
    const float top = warp_top(fmaxf(tops[0], tops[1]));
    // Classes that were ruled out have z = −inf; a warp may see only such.
    const float from = top == -INFINITY ? 0 : top;
    const bool odd = is_near(target) || is_coarse(from);
    return {top,
            warp_sum(odd ? others<true>(kept, from, target) : others<false>(kept, from, target))};
  }
  /// kOdd: large numbers, or the target is among them. There is a quicker way for the rest.
  template <bool kOdd>
  __device__ float others(const LogitPack (&kept)[kEach], float from, unsigned target) const {
    float parts[2] = {};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      unpack(kept[j], u);
      const unsigned here = target - static_cast<unsigned>(pack(j) * N);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        float z = kOdd ? distance(factors[j][k], u[k], from) : fmaf(factors[j][k], u[k], -from);
        if (kOdd && here == static_cast<unsigned>(k)) z = -INFINITY;
        parts[k % 2] += quick_exp2(z);
      }
    }
    return parts[0] + parts[1];
  }

  /// `du` counts from the block's first class, too.
  __device__ void write_gradient(const LogitPack* logits,
                                 Bf16* du,
                                 const RowFate& row,
                                 unsigned target) {
    if (is_near(target) || is_coarse(row.top)) {
      write_slopes<true>(logits, du, row, target);
    } else {
      write_slopes<false>(logits, du, row, target);
    }
  }
  template <bool kOdd>
  __device__ void write_slopes(const LogitPack* logits,
                               Bf16* du,
                               const RowFate& row,
                               unsigned target) {
    LogitPack kept[kEach];
    read_logits(logits, kept);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (!has(j)) continue;
      float u[N];
      unpack(kept[j], u);
      float dz[N];
      const unsigned here = target - static_cast<unsigned>(pack(j) * N);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float f = factors[j][k];
        const float z = kOdd ? distance(f, u[k], row.top) : fmaf(f, u[k], -row.top);
        dz[k] = row.grow * quick_exp2(z);
        if (kOdd && here == static_cast<unsigned>(k)) dz[k] = row.hit;
        sums[j][k] = fmaf(dz[k], u[k], sums[j][k]);
        dz[k] *= f;
      }
      write_pack(du + pack(j) * N, dz);
    }
  }
  __device__ void write_zeros(Bf16* du) const {
    constexpr float kZeros[N] = {};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (has(j)) write_pack(du + pack(j) * N, kZeros);
    }
  }
};

}  // namespace norma::kernels
