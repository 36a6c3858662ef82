// Attention without tensor cores, for f32 and wide heads: a block of 16 x 16 threads works on
// square tiles of kTile rows: rows of q, k, v and dout lie in shared memory as floats, kTile by the
// head's width; products of two such tiles (kTile by kTile) stay in registers, kTile/16 rows and
// columns a thread.
#pragma once

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/kernels/cuda/attention_rows.cuh"

namespace norma::kernels {

inline constexpr int kSide = 16;
inline constexpr int kTileThreads = kSide * kSide;

__device__ inline int tile_row(int r) { return static_cast<int>(threadIdx.x) / kSide + kSide * r; }
__device__ inline int tile_col(int c) { return static_cast<int>(threadIdx.x) % kSide + kSide * c; }

/// Floats from one row of a tile to the next: an odd number of 16-byte words, so that neighbouring
/// rows lie in different banks.
constexpr int tile_stride(int width) { return 4 * (((width + 3) / 4) | 1); }

/// Type and sizes of a kernel: heads of up to 64·kPacks columns, kRows rows and 4·kPacks columns of
/// an output for each thread. Four tiles of 32 rows, 256 wide, fit a multiprocessor.
template <class Element, int kColumnPacks>
struct Tiling {
  using T = Element;
  using C = Math<T>;
  static constexpr int kTile = 32;
  static constexpr int kPacks = kColumnPacks;
  static constexpr int kRows = kTile / kSide;
  static constexpr int kSquareStride = kTile + 4;

  /// Bytes of shared memory for some tiles of rows and some squares of kTile x kTile numbers.
  static constexpr std::size_t bytes(int tiles, int squares, Index width) {
    return sizeof(C) * static_cast<std::size_t>(squares * kTile * kSquareStride) +
           sizeof(float) *
               static_cast<std::size_t>(tiles * kTile * tile_stride(static_cast<int>(width)));
  }
};

/// Products of tiles, kRows by kRows a thread, and what they are turned into.
template <class K>
using Square = typename K::C[K::kRows][K::kRows];
/// Rows of an output, kRows by 4·kPacks a thread.
template <class K>
using Output = typename K::C[K::kRows][4 * K::kPacks];

/// f(Tiling{}) for the head width. In bf16 only heads too wide for the tensor cores' kernels come
/// here.
template <class T, class F>
void with_tiling(Index width, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (width <= 64) return f(Tiling<T, 1>{});
    if (width <= 128) return f(Tiling<T, 2>{});
  }
  static_assert(kWidestGpuHead == 256);
  if (width <= kWidestGpuHead) return f(Tiling<T, 4>{});
  throw RequestError(
      say("attention: heads on a GPU are at most ", kWidestGpuHead, " wide, got ", width, "."));
}

/// Rows [first, first + count) of one head, as floats; what lies beyond is 0.
template <class K>
__device__ void load_tile(Rows<const typename K::T> from,
                          Index first,
                          Index count,
                          Index column,
                          int width,
                          bool packed,
                          float* tile) {
  using T = typename K::T;
  const int stride = tile_stride(width);
  const int padded = (width + 3) / 4 * 4;
  if (packed) {
    constexpr int N = kPack<T>;
    const int per_row = width / N;
    for (int i = static_cast<int>(threadIdx.x); i < K::kTile * per_row; i += kTileThreads) {
      const int r = i / per_row;
      const int c = i % per_row * N;
      float values[N] = {};
      if (r < count) read_pack(from.row(first + r) + column + c, values);
#pragma unroll
      for (int k = 0; k < N; ++k) tile[r * stride + c + k] = values[k];
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < K::kTile * padded; i += kTileThreads) {
    const int r = i / padded;
    const int c = i % padded;
    const bool there = r < count && c < width;
    tile[r * stride + c] = there ? read<float>(from(first + r, column + c)) : 0.0f;
  }
}

/// out = a·bᵀ for two tiles of rows.
template <class K>
__device__ void multiply_rows(const float* a, const float* b, int width, Square<K>& out) {
  using C = typename K::C;
  const int stride = tile_stride(width);
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < K::kRows; ++c) out[r][c] = 0;
  }
  for (int at = 0; at < width; at += 4) {
    C x[K::kRows][4];
    C y[K::kRows][4];
#pragma unroll
    for (int r = 0; r < K::kRows; ++r) {
      read_pack(a + tile_row(r) * stride + at, x[r]);
      read_pack(b + tile_col(r) * stride + at, y[r]);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int r = 0; r < K::kRows; ++r) {
#pragma unroll
        for (int c = 0; c < K::kRows; ++c) out[r][c] += x[r][k] * y[c][k];
      }
    }
  }
}

template <class K>
__device__ void store_square(const Square<K>& values, typename K::C* square) {
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
#pragma unroll
    for (int c = 0; c < K::kRows; ++c)
      square[tile_row(r) * K::kSquareStride + tile_col(c)] = values[r][c];
  }
}

/// Where pack w of a thread's output columns begins.
template <class K>
__device__ int output_column(int w) {
  return 4 * (tile_col(0) + kSide * w);
}

/// out += square · tile.
template <class K>
__device__ void add_product(const typename K::C* square,
                            const float* tile,
                            int width,
                            Output<K>& out) {
  using C = typename K::C;
  const int stride = tile_stride(width);
  const int last = (width - 1) / 4 * 4;
  int column[K::kPacks];  // threads beyond the width compute what nobody stores
#pragma unroll
  for (int w = 0; w < K::kPacks; ++w) column[w] = min(output_column<K>(w), last);
  for (int j = 0; j < K::kTile; j += 4) {
    C x[K::kRows][4];
#pragma unroll
    for (int r = 0; r < K::kRows; ++r) read_pack(square + tile_row(r) * K::kSquareStride + j, x[r]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int w = 0; w < K::kPacks; ++w) {
        C y[4];
        read_pack(tile + (j + k) * stride + column[w], y);
#pragma unroll
        for (int r = 0; r < K::kRows; ++r) {
#pragma unroll
          for (int e = 0; e < 4; ++e) out[r][4 * w + e] += x[r][k] * y[e];
        }
      }
    }
  }
}

/// Sets or adds the output's rows [0, count), each times its factor.
template <class K>
__device__ void store_output(Rows<typename K::T> to,
                             Index first,
                             Index count,
                             Index column,
                             int width,
                             Into into,
                             const typename K::C (&factor)[K::kRows],
                             const Output<K>& values) {
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
    if (tile_row(r) >= count) continue;
    typename K::T* row = to.row(first + tile_row(r)) + column;
#pragma unroll
    for (int w = 0; w < K::kPacks; ++w) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = output_column<K>(w) + e;
        if (c < width) put(row[c], factor[r] * values[r][4 * w + e], into);
      }
    }
  }
}

}  // namespace norma::kernels
