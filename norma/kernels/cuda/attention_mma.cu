// Attention forward on the tensor cores: as attention.cu, with probabilities rounded to bf16 where
// they meet the values.
#include "norma/kernels/cuda/attention_mma.cuh"
#include "norma/kernels/cuda/attention_mma.h"

namespace norma::kernels {

namespace mma {

namespace {

constexpr int kKeys = 64;  // of a step

template <int kWidth, bool kCapped>
__global__ void __launch_bounds__(kThreads) forward_kernel(AttentionForward<Bf16> a, bool packed) {
  constexpr float kLowest = -INFINITY;
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  auto* q = reinterpret_cast<Bf16*>(memory);
  Bf16* k = q + kRows * stride_of(kWidth);
  Bf16* v = k + kKeys * stride_of(kWidth);

  const QueryTile at = query_tile(s, kRows);
  load_tile<kRows, kWidth>(a.q, at.row(s), at.count, at.h * width, width, packed, q);
  int seen[2];
  float factor[2];
  float most[2] = {kLowest, kLowest};
  float sum[2] = {};  // this thread's columns
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool there = row_of(r) < at.count;
    seen[r] = there ? static_cast<int>(s.visible(at.b, at.first + row_of(r))) : 0;
    factor[r] = a.head_factor[at.h] * row_factor<float>(s, seen[r]);
  }
  Part<kWidth> o = {};
  const int keys = static_cast<int>(most_visible(s, at.b, at.first, at.count));
  for (int first = 0; first < keys; first += kKeys) {
    __syncthreads();  // the last tile has been read
    const Index row = at.b * s.key_rows + first;
    load_tile<kKeys, kWidth>(a.k, row, keys - first, at.kv * width, width, packed, k);
    load_tile<kKeys, kWidth>(a.v, row, keys - first, at.kv * width, width, packed, v);
    wait_for_copies();
    __syncthreads();
    Part<kKeys> z;
    multiply_rows<kKeys, kWidth>(q, k, z);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = most[r];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& one = z[n][2 * r + e];
          one *= factor[r];
          if constexpr (kCapped) one = capped(s, one);
          if (first + column_of(n, e) >= seen[r]) one = kLowest;
          largest = fmaxf(largest, one);
        }
      }
      largest = warp_max<4>(largest);
      const float base = largest == kLowest ? 0.0f : largest;  // no key yet: every term is 0
      const float shrink = exp_of(most[r] - base);
      most[r] = largest;
      sum[r] *= shrink;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& one = z[n][2 * r + e];
          one = exp_of(one - base);
          sum[r] += one;
        }
      }
#pragma unroll
      for (int n = 0; n < kWidth / 8; ++n) {
        o[n][2 * r] *= shrink;
        o[n][2 * r + 1] *= shrink;
      }
    }
    add_product<kKeys, kWidth>(z, v, o);
  }
  wait_for_copies();
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float whole = warp_sum<4>(sum[r]);
    inverse[r] = seen[r] == 0 ? 0.0f : 1 / whole;
    if (lane() % 4 == 0 && row_of(r) < at.count) {
      a.lse[at.place(s) + row_of(r)] = seen[r] == 0 ? 0.0f : most[r] + logf(whole);
    }
  }
  store_rows<kWidth>(a.o, at.row(s), at.count, at.h * width, width, packed, Into::set, inverse, o);
}

}  // namespace

}  // namespace mma

void mma_attention(const AttentionForward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  mma::with_kind(s, [&](auto width, auto is_capped) {
    launch_tiles("attention",
                 s.batch * s.heads * ((s.queries + mma::kRows - 1) / mma::kRows),
                 mma::kThreads,
                 sizeof(Bf16) * (mma::kRows + 2 * mma::kKeys) * mma::stride_of(width),
                 mma::forward_kernel<width, is_capped>,
                 a,
                 heads_pack(s, a.q, a.k, a.v, a.o));
  });
}

}  // namespace norma::kernels
