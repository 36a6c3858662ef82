// What attention's kernels share. A block of 16 x 16 threads works on square tiles of kTile rows:
// rows of q, k, v and dout lie in shared memory as floats, kTile by the head's width; products of
// two such tiles (kTile by kTile) stay in registers, kTile/16 rows and columns a thread.
#pragma once

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

inline constexpr int kSide = 16;
inline constexpr int kTileThreads = kSide * kSide;

__device__ inline int tile_row(int r) { return static_cast<int>(threadIdx.x) / kSide + kSide * r; }
__device__ inline int tile_col(int c) { return static_cast<int>(threadIdx.x) % kSide + kSide * c; }

/// Floats from one row of a tile to the next: an odd number of 16-byte words, so that neighbouring
/// rows lie in different banks.
constexpr int tile_stride(int width) { return 4 * (((width + 3) / 4) | 1); }

/// Type and sizes of a kernel: kTile rows, heads of up to 64·kPacks columns, kRows rows and
/// 4·kPacks columns of an output for each thread.
template <class Element, int kTileRows, int kColumnPacks>
struct Tiling {
  using T = Element;
  using C = Math<T>;
  static constexpr int kTile = kTileRows;
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

/// f(Tiling{}) for the head width. Wide heads get half the rows: four tiles must fit.
template <class T, class F>
void with_tiling(Index width, F&& f) {
  constexpr bool kSmall = std::is_same_v<T, float>;  // doubles take twice the registers
  constexpr int kTile = kSmall ? 32 : 64;
  if (width <= 64) return f(Tiling<T, kTile, 1>{});
  if (width <= 128) return f(Tiling<T, kTile, 2>{});
  if (width <= 256) return f(Tiling<T, 32, 4>{});
  throw RequestError(say("attention: heads on the GPU are at most 256 wide, got ", width, "."));
}

/// launch() with more shared memory than a kernel gets unasked.
template <class... Parameters, class... Arguments>
void launch_tiles(const char* what,
                  Index blocks,
                  std::size_t shared,
                  void (*kernel)(Parameters...),
                  Arguments&&... arguments) {
  device::check(cudaFuncSetAttribute(
                    kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
                "asking for shared memory");
  launch(what, static_cast<unsigned>(blocks), kTileThreads, shared, kernel, arguments...);
}

/// Whether each head's part of all these rows can be taken in packs.
template <class... T>
bool heads_pack(const AttentionShape& s, const Rows<T>&... rows) {
  const auto fits = [&]<class E>(const Rows<E>& matrix) {
    constexpr int N = kPack<std::remove_const_t<E>>;
    return s.head_width % N == 0 && packs(matrix, N);
  };
  return (fits(rows) && ...);
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

// Probabilities: beside bf16 the hardware's exponential is exact enough (1e-6 of the largest).
__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline double tanh_of(double x) { return tanh(x); }

/// The factor of a query's logits: its head's, times ln(visible keys) where the rule asks for it.
template <class C>
__device__ C row_factor(const AttentionShape& s, Index seen) {
  return s.log_length && seen > 1 ? static_cast<C>(log(static_cast<double>(seen)))
                                  : static_cast<C>(s.log_length ? 0 : 1);
}
template <class C>
__device__ C capped(const AttentionShape& s, C logit) {
  const C cap = static_cast<C>(s.softcap);
  return cap > 0 ? cap * tanh_of(logit / cap) : logit;
}
/// The derivative of capped(), from its value.
template <class C>
__device__ C cap_slope(const AttentionShape& s, C z) {
  const C cap = static_cast<C>(s.softcap);
  const C share = cap > 0 ? z / cap : 0;
  return 1 - share * share;
}

/// The most keys that one of the queries [first, first + count) sees.
__device__ inline Index most_visible(const AttentionShape& s, Index b, Index first, Index count) {
  const Index valid = s.lengths == nullptr ? s.keys : static_cast<Index>(s.lengths[b]);
  const Index begin = s.keys - s.queries + first;
  const Index last = min(begin + count, valid) - 1;
  if (last < begin) return 0;
  return s.causal ? last + 1 : valid;
}

/// The tile of queries that a block works on, one head of one sequence.
struct QueryTile {
  Index b, h, kv, first, count;
  /// Row of q; place in (batch, heads, queries).
  __device__ Index row(const AttentionShape& s) const { return b * s.queries + first; }
  __device__ Index place(const AttentionShape& s) const {
    return (b * s.heads + h) * s.queries + first;
  }
};
/// The last tiles of a causal head see the most and go first.
__device__ inline QueryTile query_tile(const AttentionShape& s, int rows) {
  const Index tiles = (s.queries + rows - 1) / rows;
  const Index head = blockIdx.x / tiles;
  const Index first = (tiles - 1 - blockIdx.x % tiles) * rows;
  return {.b = head / s.heads,
          .h = head % s.heads,
          .kv = head % s.heads / (s.heads / s.kv_heads),
          .first = first,
          .count = min(static_cast<Index>(rows), s.queries - first)};
}

}  // namespace norma::kernels
