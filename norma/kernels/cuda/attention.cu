// Attention forward: the kernels of another page where it has some for shape and rule, else those
// here, for every shape and rule. The softmax is taken as the keys come by, tile by tile, with the
// sum so far kept relative to the largest logit so far.
#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/attention_choice.h"
#include "norma/kernels/cuda/attention_mma.h"
#include "norma/kernels/cuda/attention_tiles.cuh"

namespace norma::kernels {

namespace {

template <class K>
__global__ void __launch_bounds__(kTileThreads)
    forward_kernel(AttentionForward<typename K::T> a, bool packed) {
  using C = typename K::C;
  constexpr C kLowest = -INFINITY;
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  auto* p = reinterpret_cast<C*>(memory);
  auto* q = reinterpret_cast<float*>(p + K::kTile * K::kSquareStride);
  float* k = q + K::kTile * tile_stride(width);
  float* v = k + K::kTile * tile_stride(width);

  const QueryTile at = query_tile(s, K::kTile);
  load_tile<K>(a.q, at.row(s), at.count, at.h * width, width, packed, q);
  Index seen[K::kRows];
  C factor[K::kRows];
  C most[K::kRows];
  C sum[K::kRows];
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
    seen[r] = tile_row(r) < at.count ? s.visible(at.b, at.first + tile_row(r)) : 0;
    factor[r] = read<C>(a.head_factor[at.h]) * row_factor<C>(s, seen[r]);
    most[r] = kLowest;
    sum[r] = 0;
  }
  Output<K> o = {};
  const Index keys = most_visible(s, at.b, at.first, at.count);
  for (Index first = 0; first < keys; first += K::kTile) {
    __syncthreads();  // the last tile has been read
    const Index count = min(static_cast<Index>(K::kTile), keys - first);
    load_tile<K>(a.k, at.b * s.key_rows + first, count, at.kv * width, width, packed, k);
    load_tile<K>(a.v, at.b * s.key_rows + first, count, at.kv * width, width, packed, v);
    __syncthreads();
    Square<K> z;
    multiply_rows<K>(q, k, width, z);
#pragma unroll
    for (int r = 0; r < K::kRows; ++r) {
      C largest = most[r];
#pragma unroll
      for (int c = 0; c < K::kRows; ++c) {
        z[r][c] = first + tile_col(c) < seen[r] ? capped(s, factor[r] * z[r][c]) : kLowest;
        largest = max(largest, z[r][c]);
      }
      largest = warp_max<kSide>(largest);
      const C base = largest == kLowest ? C{0} : largest;  // no key yet: every term is 0
      const C shrink = exp_of(most[r] - base);
      most[r] = largest;
      C part = 0;
#pragma unroll
      for (int c = 0; c < K::kRows; ++c) {
        z[r][c] = exp_of(z[r][c] - base);
        part += z[r][c];
      }
      sum[r] = sum[r] * shrink + warp_sum<kSide>(part);
#pragma unroll
      for (int e = 0; e < 4 * K::kPacks; ++e) o[r][e] *= shrink;
    }
    store_square<K>(z, p);
    __syncthreads();
    add_product<K>(p, v, width, o);
  }
  C inverse[K::kRows];
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
    inverse[r] = seen[r] == 0 ? C{0} : 1 / sum[r];
    if (tile_col(0) == 0 && tile_row(r) < at.count) {
      write(a.lse[at.place(s) + tile_row(r)], seen[r] == 0 ? C{0} : most[r] + log(sum[r]));
    }
  }
  store_output<K>(a.o, at.row(s), at.count, at.h * width, width, Into::set, inverse, o);
}

}  // namespace

template <class T>
void run(Cuda, const AttentionForward<T>& a) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (quick_attention(a)) return;
    if (a.shape.head_width <= kWidestMma) return mma_attention(a);
  }
  const AttentionShape& s = a.shape;
  with_tiling<T>(s.head_width, [&](auto tiling) {
    using K = decltype(tiling);
    launch_tiles("attention",
                 s.batch * s.heads * ((s.queries + K::kTile - 1) / K::kTile),
                 kTileThreads,
                 K::bytes(3, 1, s.head_width),
                 forward_kernel<K>,
                 a,
                 heads_pack(s, a.q, a.k, a.v));
  });
}
template void run(Cuda, const AttentionForward<float>&);
template void run(Cuda, const AttentionForward<Bf16>&);

}  // namespace norma::kernels
