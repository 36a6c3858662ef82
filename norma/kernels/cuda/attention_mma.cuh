// Tiles of bf16 rows in shared memory and their products on the tensor cores. Of a product each of
// the four warps holds 16 rows; a thread holds, of every 8 columns, two neighbours in two rows that
// are 8 apart (the accumulators of mma.m16n8k16).
#pragma once

#include "norma/kernels/cuda/attention_rows.cuh"
#include "norma/kernels/cuda/copy_later.cuh"
#include "norma/kernels/cuda/mma_instructions.cuh"

namespace norma::kernels::mma {

inline constexpr int kThreads = 128;
inline constexpr int kRows = 64;  // of a block: 16 a warp

/// kColumns columns of a product.
template <int kColumns>
using Part = float[kColumns / 8][4];

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int first_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
/// The row of a thread's element 2r or 2r + 1, and the column of element e in the n-th eight.
__device__ inline int row_of(int r) { return first_row() + lane() / 4 + 8 * r; }
__device__ inline int column_of(int n, int e) { return 8 * n + 2 * (lane() % 4) + e; }

/// Elements from one row of a tile to the next: the eight rows of a matrix lie in different banks.
constexpr int stride_of(int width) { return width + 8; }

/// Rows [first, first + count) of one head, kTile by kWidth; what lies beyond is 0. The tile is
/// there after wait_for_copies() and a barrier.
template <int kTile, int kWidth>
__device__ void load_tile(Rows<const Bf16> from,
                          Index first,
                          Index count,
                          Index column,
                          int width,
                          bool packed,
                          Bf16* tile) {
  constexpr int kPacks = kWidth / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kPacks; i += kThreads) {
    const int r = i / kPacks;
    const int c = i % kPacks * 8;
    Bf16* to = tile + r * stride_of(kWidth) + c;
    if (packed) {
      const bool there = r < count && c < width;
      copy_later(to, there ? from.row(first + r) + column + c : from.data, there);
      continue;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      to[k] = r < count && c + k < width ? from(first + r, column + c + k) : Bf16{};
    }
  }
}

/// 16 rows by 16 columns as the left factor.
__device__ inline void load_left(
    const Bf16* tile, int stride, int row, int column, unsigned (&to)[4]) {
  load_matrices(tile + (row + lane() % 16) * stride + column + lane() / 16 * 8, to);
}
/// 16 rows by 16 columns as the transposed right factor: its columns are the tile's rows, eight in
/// the first two registers and eight in the others.
__device__ inline void load_right_turned(
    const Bf16* tile, int stride, int row, int column, unsigned (&to)[4]) {
  load_matrices(tile + (row + lane() % 8 + lane() / 16 * 8) * stride + column + lane() / 8 % 2 * 8,
                to);
}
/// 16 rows by 16 columns as the right factor, eight columns in the first two registers.
__device__ inline void load_right(
    const Bf16* tile, int stride, int row, int column, unsigned (&to)[4]) {
  load_turned_matrices(tile + (row + lane() % 16) * stride + column + lane() / 16 * 8, to);
}

/// out = a·bᵀ: the warp's 16 rows of a by kColumns rows of b, both kWidth wide.
template <int kColumns, int kWidth>
__device__ void multiply_rows(const Bf16* a, const Bf16* b, Part<kColumns>& out) {
  constexpr int kStride = stride_of(kWidth);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) out[n][e] = 0;
  }
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    unsigned left[4];
    load_left(a, kStride, first_row(), k, left);
#pragma unroll
    for (int n = 0; n < kColumns; n += 16) {
      unsigned right[4];
      load_right_turned(b, kStride, n, k, right);
      multiply_add(left, right[0], right[1], out[n / 8]);
      multiply_add(left, right[2], right[3], out[n / 8 + 1]);
    }
  }
}

/// out += a·b: a, kColumns wide, is rounded to bf16; b has kColumns rows, kWidth wide.
template <int kColumns, int kWidth>
__device__ void add_product(const Part<kColumns>& a, const Bf16* b, Part<kWidth>& out) {
  constexpr int kStride = stride_of(kWidth);
#pragma unroll
  for (int k = 0; k < kColumns; k += 16) {
    const float(&one)[4] = a[k / 8];
    const float(&next)[4] = a[k / 8 + 1];
    const unsigned left[4] = {rounded_pair(one[0], one[1]),
                              rounded_pair(one[2], one[3]),
                              rounded_pair(next[0], next[1]),
                              rounded_pair(next[2], next[3])};
#pragma unroll
    for (int n = 0; n < kWidth; n += 16) {
      unsigned right[4];
      load_right(b, kStride, k, n, right);
      multiply_add(left, right[0], right[1], out[n / 8]);
      multiply_add(left, right[2], right[3], out[n / 8 + 1]);
    }
  }
}

/// Sets or adds rows [0, count) of a result, each times its factor.
template <int kWidth>
__device__ void store_rows(Rows<Bf16> to,
                           Index first,
                           Index count,
                           Index column,
                           int width,
                           bool packed,
                           Into into,
                           const float (&factor)[2],
                           const Part<kWidth>& values) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (row_of(r) >= count) continue;
    Bf16* row = to.row(first + row_of(r)) + column;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const float both[2] = {factor[r] * values[n][2 * r], factor[r] * values[n][2 * r + 1]};
      const int c = column_of(n, 0);
      if (packed) {
        if (c < width) put_pack(row + c, both, into);
        continue;
      }
      if (c < width) put(row[c], both[0], into);
      if (c + 1 < width) put(row[c + 1], both[1], into);
    }
  }
}

/// f(width, capped) with the width that heads are padded to and whether there is a softcap, both
/// known when a kernel is compiled: tanh in every kernel would cost registers.
template <class F>
void with_kind(const AttentionShape& s, F&& f) {
  const auto with_cap = [&](auto width) {
    if (s.softcap > 0) return f(width, std::true_type{});
    return f(width, std::false_type{});
  };
  if (s.head_width <= 64) return with_cap(std::integral_constant<int, 64>{});
  return with_cap(std::integral_constant<int, 128>{});
}

}  // namespace norma::kernels::mma
