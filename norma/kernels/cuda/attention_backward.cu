// Attention backward for every shape and rule. Probabilities come back from the saved log-sums,
// once by tiles of queries (dq and the sums for the head factors), once by tiles of keys (dk and
// dv, where the query heads that share a key head follow each other): nothing is added by two
// blocks, so the bits do not depend on who comes first.
#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/attention_mma.h"
#include "norma/kernels/cuda/attention_tiles.cuh"
#include "norma/kernels/cuda/attention_wgmma.h"

namespace norma::kernels {

namespace {

/// delta (batch, heads, queries) = <dout, o>, a warp for each.
template <class T>
__global__ void delta_kernel(AttentionBackward<T> a) {
  using C = Math<T>;
  const AttentionShape& s = a.shape;
  const Index step = static_cast<Index>(gridDim.x) * (blockDim.x / 32);
  for (Index i = static_cast<Index>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
       i < a.o.rows * s.heads;
       i += step) {
    const Index row = i / s.heads;
    const Index h = i % s.heads;
    const T* o = a.o.row(row) + h * s.head_width;
    const T* dout = a.dout.row(row) + h * s.head_width;
    C sum = 0;
    for (Index c = threadIdx.x % 32; c < s.head_width; c += 32)
      sum += read<C>(o[c]) * read<C>(dout[c]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
      write(a.scratch[(row / s.queries * s.heads + h) * s.queries + row % s.queries], sum);
    }
  }
}

/// The gradient of a logit with value z from that of its probability p. A lone key has p = 1
/// whatever its logit: there the difference would be the rounding of delta.
template <class C>
__device__ C logit_grad(const AttentionShape& s, const QueryRow<C>& row, C z, C p, C dp) {
  return row.seen == 1 ? C{0} : p * (dp - row.delta) * cap_slope(s, z);
}

/// A row's share in the gradient of its head's factor: Σ_j p_j·(dp_j − delta)·slope_j·dot_j, where
/// most of it cancels. So it takes the delta that belongs to these p; <dout, o> has the rounding
/// of o.
template <class C>
struct FactorShare {
  C mass = 0;   // Σ p
  C along = 0;  // Σ p·dp
  C dots = 0;   // Σ p·slope·dot
  C whole = 0;  // Σ p·dp·slope·dot
  __device__ void add(C p, C dp, C slope_dot) {
    mass += p;
    along += p * dp;
    dots += p * slope_dot;
    whole += p * dp * slope_dot;
  }
  /// Of a row whose kSide lanes have a part each.
  __device__ C sum() const {
    // All lanes of a warp, which has two rows, take part in every sum.
    const C masses = warp_sum<kSide>(mass);
    const C alongs = warp_sum<kSide>(along);
    const C all_dots = warp_sum<kSide>(dots);
    const C wholes = warp_sum<kSide>(whole);
    return masses > 0 ? wholes - alongs / masses * all_dots : C{0};
  }
};

/// dq = factor·Σ_j ds_ij·k_j, and each row's share in the gradient of its head's factor.
template <class K>
__global__ void __launch_bounds__(kTileThreads)
    query_kernel(AttentionBackward<typename K::T> a, bool packed) {
  using C = typename K::C;
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  const int tile = K::kTile * tile_stride(width);
  auto* square = reinterpret_cast<C*>(memory);
  auto* q = reinterpret_cast<float*>(square + K::kTile * K::kSquareStride);
  float* dout = q + tile;
  float* k = dout + tile;
  float* v = k + tile;

  const QueryTile at = query_tile(s, K::kTile);
  load_tile<K>(a.q, at.row(s), at.count, at.h * width, width, packed, q);
  load_tile<K>(a.dout, at.row(s), at.count, at.h * width, width, packed, dout);
  QueryRow<C> row[K::kRows];
  FactorShare<C> share[K::kRows];
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
    row[r] = query_row<C>(a, at.b, at.h, at.first + tile_row(r), at.first + at.count);
  }
  Output<K> dq = {};
  const Index keys = most_visible(s, at.b, at.first, at.count);
  for (Index first = 0; first < keys; first += K::kTile) {
    __syncthreads();  // the last tile has been read
    const Index count = min(static_cast<Index>(K::kTile), keys - first);
    load_tile<K>(a.k, at.b * s.key_rows + first, count, at.kv * width, width, packed, k);
    load_tile<K>(a.v, at.b * s.key_rows + first, count, at.kv * width, width, packed, v);
    __syncthreads();
    Square<K> dot;
    Square<K> ds;
    multiply_rows<K>(q, k, width, dot);
    multiply_rows<K>(dout, v, width, ds);
#pragma unroll
    for (int r = 0; r < K::kRows; ++r) {
#pragma unroll
      for (int c = 0; c < K::kRows; ++c) {
        const C z = capped(s, row[r].factor * dot[r][c]);
        const C p = first + tile_col(c) < row[r].seen ? exp_of(z - row[r].lse) : C{0};
        share[r].add(p, ds[r][c], cap_slope(s, z) * dot[r][c]);
        ds[r][c] = logit_grad(s, row[r], z, p, ds[r][c]);
      }
    }
    store_square<K>(ds, square);
    __syncthreads();
    add_product<K>(square, k, width, dq);
  }
  C factor[K::kRows];
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) {
    factor[r] = row[r].factor;
    const C all = row_factor<C>(s, row[r].seen) * share[r].sum();
    const C sum = row[r].seen == 1 ? C{0} : all;  // as in logit_grad()
    if (a.dhead_factor != nullptr && tile_col(0) == 0 && tile_row(r) < at.count) {
      Wide<typename K::T>* shares = a.scratch + s.batch * s.heads * s.queries;
      write(shares[at.place(s) + tile_row(r)], sum);
    }
  }
  if (a.dq) store_output<K>(a.dq, at.row(s), at.count, at.h * width, width, a.dq_into, factor, dq);
}

/// dk_j = Σ_i factor_i·ds_ij·q_i and dv_j = Σ_i p_ij·dout_i over the queries of all heads of a
/// group.
template <class K>
__global__ void __launch_bounds__(kTileThreads)
    key_kernel(AttentionBackward<typename K::T> a, bool packed) {
  using C = typename K::C;
  unsigned char* const memory = block_memory();
  const AttentionShape& s = a.shape;
  const int width = static_cast<int>(s.head_width);
  const int tile = K::kTile * tile_stride(width);
  auto* p_square = reinterpret_cast<C*>(memory);
  C* ds_square = p_square + K::kTile * K::kSquareStride;
  auto* q = reinterpret_cast<float*>(ds_square + K::kTile * K::kSquareStride);
  float* dout = q + tile;
  float* k = dout + tile;
  float* v = k + tile;

  const KeyTile at = key_tile(s, K::kTile);
  const Index key = at.b * s.key_rows + at.first;
  load_tile<K>(a.k, key, at.count, at.kv * width, width, packed, k);
  load_tile<K>(a.v, key, at.count, at.kv * width, width, packed, v);

  Output<K> dk = {};
  Output<K> dv = {};
  const Index group = s.heads / s.kv_heads;
  for (Index h = at.kv * group; h < (at.kv + 1) * group; ++h) {
    for (Index i = at.begin; i < at.end; i += K::kTile) {
      __syncthreads();  // the last tile has been read
      const Index rows = min(static_cast<Index>(K::kTile), at.end - i);
      load_tile<K>(a.q, at.b * s.queries + i, rows, h * width, width, packed, q);
      load_tile<K>(a.dout, at.b * s.queries + i, rows, h * width, width, packed, dout);
      __syncthreads();
      Square<K> p;
      Square<K> ds;
      multiply_rows<K>(k, q, width, p);
      multiply_rows<K>(v, dout, width, ds);
#pragma unroll
      for (int c = 0; c < K::kRows; ++c) {
        const QueryRow<C> row = query_row<C>(a, at.b, h, i + tile_col(c), at.end);
#pragma unroll
        for (int r = 0; r < K::kRows; ++r) {
          const C z = capped(s, row.factor * p[r][c]);
          p[r][c] = at.first + tile_row(r) < row.seen ? exp_of(z - row.lse) : C{0};
          ds[r][c] = row.factor * logit_grad(s, row, z, p[r][c], ds[r][c]);
        }
      }
      store_square<K>(p, p_square);
      store_square<K>(ds, ds_square);
      __syncthreads();
      if (a.dv) add_product<K>(p_square, dout, width, dv);
      if (a.dk) add_product<K>(ds_square, q, width, dk);
    }
  }
  C one[K::kRows];
#pragma unroll
  for (int r = 0; r < K::kRows; ++r) one[r] = 1;
  const Index rows = min(static_cast<Index>(K::kTile), s.key_rows - at.first);
  if (a.dk) store_output<K>(a.dk, key, rows, at.kv * width, width, a.dk_into, one, dk);
  if (a.dv) store_output<K>(a.dv, key, rows, at.kv * width, width, a.dv_into, one, dv);
}

/// sums (batch · heads) = Σ over a head's queries, a warp for each.
template <class P>
__global__ void sum_queries_kernel(const P* shares, Index queries, P* sums) {
  double sum = 0;
  for (Index i = threadIdx.x; i < queries; i += 32)
    sum += read<double>(shares[blockIdx.x * queries + i]);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) write(sums[blockIdx.x], sum);
}

/// dq, dk, dv and each row's share in dhead_factor; scratch holds <dout, o> of each row.
template <class T>
void tile_passes(const AttentionBackward<T>& a) {
  const AttentionShape& s = a.shape;
  const bool packed = heads_pack(s, a.q, a.k, a.v, a.dout);
  with_tiling<T>(s.head_width, [&](auto tiling) {
    using K = decltype(tiling);
    if (a.dq || a.dhead_factor != nullptr) {
      launch_tiles("attention's gradient: queries",
                   s.batch * s.heads * ((s.queries + K::kTile - 1) / K::kTile),
                   kTileThreads,
                   K::bytes(4, 1, s.head_width),
                   query_kernel<K>,
                   a,
                   packed);
    }
    if (a.dk || a.dv) {
      launch_tiles("attention's gradient: keys",
                   s.batch * s.kv_heads * ((s.key_rows + K::kTile - 1) / K::kTile),
                   kTileThreads,
                   K::bytes(4, 2, s.head_width),
                   key_kernel<K>,
                   a,
                   packed);
    }
  });
}

/// Whether the tensor cores did it.
bool mma_passes(const AttentionBackward<float>& /*a*/) { return false; }
bool mma_passes(const AttentionBackward<Bf16>& a) {
  if (a.shape.head_width > kWidestMma) return false;
  mma_attention(a);
  return true;
}

}  // namespace

template <class T>
void run(Cuda, const AttentionBackward<T>& a) {
  const AttentionShape& s = a.shape;
  const Index heads = s.batch * s.heads;
  bool done = false;
  if constexpr (std::is_same_v<T, Bf16>) done = wgmma_attention(a);
  if (!done) {
    constexpr int kThreads = 256;
    launch("attention's gradient: rows",
           device::blocks_for(heads * s.queries, kThreads / 32),
           kThreads,
           0,
           delta_kernel<T>,
           a);
    if (!mma_passes(a)) tile_passes(a);
  }
  if (a.dhead_factor == nullptr) return;
  launch("attention's gradient: factors",
         static_cast<unsigned>(heads),
         32,
         0,
         sum_queries_kernel<Wide<T>>,
         a.scratch + heads * s.queries,
         s.queries,
         a.dhead_factor);
}
template void run(Cuda, const AttentionBackward<float>&);
template void run(Cuda, const AttentionBackward<Bf16>&);

}  // namespace norma::kernels
