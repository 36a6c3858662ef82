// Attention backward on the tensor cores: as attention_backward.cu, with probabilities and
// gradients of logits rounded to bf16 where they meet a second factor.
#include "norma/kernels/cuda/attention_mma.cuh"
#include "norma/kernels/cuda/attention_mma.h"

namespace norma::kernels {

namespace mma {

namespace {

constexpr int kKeys = 64;  // of a step in the kernel for queries
/// Queries of a step in the kernel for keys: with two results in registers, wide heads leave room
/// for half as many.
constexpr int queries_of(int width) { return width > 64 ? 32 : 64; }

/// delta_i = Σ_j p_ij·<dout_i, v_j> from the probabilities themselves. The gradient of a head's
/// factor sums p·(dp − delta)·dot over all keys, where most of it cancels: it takes a delta that
/// belongs to these p, while <dout, o> has the rounding of o.
template <int kWidth, bool kCapped>
__global__ void __launch_bounds__(kThreads) delta_kernel(AttentionBackward<Bf16> a, bool packed) {
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  auto* q = reinterpret_cast<Bf16*>(memory);
  Bf16* dout = q + kRows * stride_of(kWidth);
  Bf16* k = dout + kRows * stride_of(kWidth);
  Bf16* v = k + kKeys * stride_of(kWidth);

  const QueryTile at = query_tile(s, kRows);
  load_tile<kRows, kWidth>(a.q, at.row(s), at.count, at.h * width, width, packed, q);
  load_tile<kRows, kWidth>(a.dout, at.row(s), at.count, at.h * width, width, packed, dout);
  QueryRow<float> row[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    row[r] = query_row<float>(a, at.b, at.h, at.first + row_of(r), at.first + at.count);
  }
  float along[2] = {};
  float mass[2] = {};
  const int keys = static_cast<int>(most_visible(s, at.b, at.first, at.count));
  for (int first = 0; first < keys; first += kKeys) {
    __syncthreads();  // the last tile has been read
    const Index key = at.b * s.key_rows + first;
    load_tile<kKeys, kWidth>(a.k, key, keys - first, at.kv * width, width, packed, k);
    load_tile<kKeys, kWidth>(a.v, key, keys - first, at.kv * width, width, packed, v);
    wait_for_copies();
    __syncthreads();
    Part<kKeys> dot;
    Part<kKeys> dp;
    multiply_rows<kKeys, kWidth>(q, k, dot);
    multiply_rows<kKeys, kWidth>(dout, v, dp);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const QueryRow<float>& mine = row[i / 2];
        float z = mine.factor * dot[n][i];
        if constexpr (kCapped) z = capped(s, z);
        if (first + column_of(n, i % 2) >= mine.seen) continue;
        const float p = exp_of(z - mine.lse);
        // What is left beside the estimate is small, and so is what the sum rounds off.
        along[i / 2] += p * (dp[n][i] - mine.delta);
        mass[i / 2] += p;
      }
    }
  }
  wait_for_copies();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float left = warp_sum<4>(along[r]);
    const float whole = warp_sum<4>(mass[r]);
    if (lane() % 4 == 0 && row_of(r) < at.count && whole > 0) {
      a.scratch[at.place(s) + row_of(r)] = row[r].delta + left / whole;
    }
  }
}

/// dq = factor·Σ_j ds_ij·k_j, and each row's share in the gradient of its head's factor.
template <int kWidth, bool kCapped>
__global__ void __launch_bounds__(kThreads) query_kernel(AttentionBackward<Bf16> a, bool packed) {
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  auto* q = reinterpret_cast<Bf16*>(memory);
  Bf16* dout = q + kRows * stride_of(kWidth);
  Bf16* k = dout + kRows * stride_of(kWidth);
  Bf16* v = k + kKeys * stride_of(kWidth);

  const QueryTile at = query_tile(s, kRows);
  load_tile<kRows, kWidth>(a.q, at.row(s), at.count, at.h * width, width, packed, q);
  load_tile<kRows, kWidth>(a.dout, at.row(s), at.count, at.h * width, width, packed, dout);
  QueryRow<float> row[2];
  float share[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    row[r] = query_row<float>(a, at.b, at.h, at.first + row_of(r), at.first + at.count);
  }
  Part<kWidth> dq = {};
  const int keys = static_cast<int>(most_visible(s, at.b, at.first, at.count));
  for (int first = 0; first < keys; first += kKeys) {
    __syncthreads();  // the last tile has been read
    const Index key = at.b * s.key_rows + first;
    load_tile<kKeys, kWidth>(a.k, key, keys - first, at.kv * width, width, packed, k);
    load_tile<kKeys, kWidth>(a.v, key, keys - first, at.kv * width, width, packed, v);
    wait_for_copies();
    __syncthreads();
    Part<kKeys> dot;
    Part<kKeys> ds;
    multiply_rows<kKeys, kWidth>(q, k, dot);
    multiply_rows<kKeys, kWidth>(dout, v, ds);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const QueryRow<float>& mine = row[i / 2];
        float z = mine.factor * dot[n][i];
        if constexpr (kCapped) z = capped(s, z);
        const float p = first + column_of(n, i % 2) < mine.seen ? exp_of(z - mine.lse) : 0.0f;
        ds[n][i] = p * (ds[n][i] - mine.delta);
        if constexpr (kCapped) ds[n][i] *= cap_slope(s, z);
        share[i / 2] += ds[n][i] * dot[n][i];
      }
    }
    add_product<kKeys, kWidth>(ds, k, dq);
  }
  wait_for_copies();
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = row[r].factor;
    const float sum = row_factor<float>(s, row[r].seen) * warp_sum<4>(share[r]);
    if (a.dhead_factor != nullptr && lane() % 4 == 0 && row_of(r) < at.count) {
      float* shares = a.scratch + s.batch * s.heads * s.queries;
      shares[at.place(s) + row_of(r)] = sum;
    }
  }
  if (!a.dq) return;
  store_rows<kWidth>(a.dq, at.row(s), at.count, at.h * width, width, packed, a.dq_into, factor, dq);
}

/// dk_j = Σ_i factor_i·ds_ij·q_i and dv_j = Σ_i p_ij·dout_i over the queries of all heads of a
/// group.
template <int kWidth, bool kCapped>
__global__ void __launch_bounds__(kThreads) key_kernel(AttentionBackward<Bf16> a, bool packed) {
  constexpr int kQueries = queries_of(kWidth);
  unsigned char* const memory = block_memory();
  __shared__ QueryRow<float> rows[kQueries];
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  auto* k = reinterpret_cast<Bf16*>(memory);
  Bf16* v = k + kRows * stride_of(kWidth);
  Bf16* q = v + kRows * stride_of(kWidth);
  Bf16* dout = q + kQueries * stride_of(kWidth);

  const KeyTile at = key_tile(s, kRows);
  const Index key = at.b * s.key_rows + at.first;
  const auto first = static_cast<int>(at.first);
  load_tile<kRows, kWidth>(a.k, key, at.count, at.kv * width, width, packed, k);
  load_tile<kRows, kWidth>(a.v, key, at.count, at.kv * width, width, packed, v);

  Part<kWidth> dk = {};
  Part<kWidth> dv = {};
  const Index group = s.heads / s.kv_heads;
  for (Index h = at.kv * group; h < (at.kv + 1) * group; ++h) {
    for (Index i = at.begin; i < at.end; i += kQueries) {
      __syncthreads();  // the last tile has been read
      const Index query = at.b * s.queries + i;
      load_tile<kQueries, kWidth>(a.q, query, at.end - i, h * width, width, packed, q);
      load_tile<kQueries, kWidth>(a.dout, query, at.end - i, h * width, width, packed, dout);
      if (threadIdx.x < kQueries) {
        rows[threadIdx.x] = query_row<float>(a, at.b, h, i + threadIdx.x, at.end);
      }
      wait_for_copies();
      __syncthreads();
      Part<kQueries> p;
      Part<kQueries> ds;
      multiply_rows<kQueries, kWidth>(k, q, p);
      multiply_rows<kQueries, kWidth>(v, dout, ds);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const QueryRow<float> row = rows[column_of(n, e)];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float& one = p[n][2 * r + e];
            float& slope = ds[n][2 * r + e];
            float z = row.factor * one;
            if constexpr (kCapped) z = capped(s, z);
            one = first + row_of(r) < row.seen ? exp_of(z - row.lse) : 0.0f;
            slope = row.factor * one * (slope - row.delta);
            if constexpr (kCapped) slope *= cap_slope(s, z);
          }
        }
      }
      add_product<kQueries, kWidth>(p, dout, dv);
      add_product<kQueries, kWidth>(ds, q, dk);
    }
  }
  wait_for_copies();
  constexpr float kOnes[2] = {1, 1};
  const Index count = min(static_cast<Index>(kRows), s.key_rows - at.first);
  if (a.dk) {
    store_rows<kWidth>(a.dk, key, count, at.kv * width, width, packed, a.dk_into, kOnes, dk);
  }
  if (a.dv) {
    store_rows<kWidth>(a.dv, key, count, at.kv * width, width, packed, a.dv_into, kOnes, dv);
  }
}

}  // namespace

}  // namespace mma

void mma_attention(const AttentionBackward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  const bool packed = heads_pack(s, a.q, a.k, a.v, a.dout, a.dq, a.dk, a.dv);
  mma::with_kind(s, [&](auto width, auto is_capped) {
    const std::size_t row_bytes = sizeof(Bf16) * mma::stride_of(width);
    if (a.dhead_factor != nullptr) {
      launch_tiles("attention's gradient: rows",
                   s.batch * s.heads * ((s.queries + mma::kRows - 1) / mma::kRows),
                   mma::kThreads,
                   2 * (mma::kRows + mma::kKeys) * row_bytes,
                   mma::delta_kernel<width, is_capped>,
                   a,
                   packed);
    }
    if (a.dq || a.dhead_factor != nullptr) {
      launch_tiles("attention's gradient: queries",
                   s.batch * s.heads * ((s.queries + mma::kRows - 1) / mma::kRows),
                   mma::kThreads,
                   2 * (mma::kRows + mma::kKeys) * row_bytes,
                   mma::query_kernel<width, is_capped>,
                   a,
                   packed);
    }
    if (a.dk || a.dv) {
      launch_tiles("attention's gradient: keys",
                   s.batch * s.kv_heads * ((s.key_rows + mma::kRows - 1) / mma::kRows),
                   mma::kThreads,
                   2 * (mma::kRows + mma::queries_of(width)) * row_bytes,
                   mma::key_kernel<width, is_capped>,
                   a,
                   packed);
    }
  });
}

}  // namespace norma::kernels
