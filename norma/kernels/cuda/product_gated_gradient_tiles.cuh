// SwiGLU's and GEGLU's gradients on the tiles of the product that brings them theirs
// (product_tiles.cuh).
#pragma once

#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/product_tiles.cuh"

namespace norma::kernels::products::gated_gradient {

struct Scales {
  const float* s_u;
  const float* s_v;
  float u_factor;
  float g_factor;
};
struct Factors {
  float2 u;
  float2 g;
};

// The warpgroup's own squares hold sums of two rounds in turn, and the factors of a tile's columns:
// they are read from memory while the products are at work.
inline constexpr int kSums = 2 * kSide;       // of one warp: ds_u, then ds_v
inline constexpr int kRoundSums = 4 * kSums;  // of the warpgroup
inline constexpr int kFactorsAt = 2 * kRoundSums;
static_assert((kFactorsAt + 2 * kTileColumns) * sizeof(float) <= kOwnBytes);

__device__ inline float* floats_of(unsigned char* own) { return reinterpret_cast<float*>(own); }

__device__ inline void fetch_factors(unsigned char* own,
                                     int column,
                                     const Shape& s,
                                     const Scales& scales) {
  float* to = floats_of(own) + kFactorsAt;
  for (int i = static_cast<int>(threadIdx.x) % kWarpgroup; i < kTileColumns; i += kWarpgroup) {
    const int c = column + i;
    const bool there = c < s.columns;
    to[i] = scales.u_factor * (there && scales.s_u != nullptr ? scales.s_u[c] : 1.0f);
    to[kTileColumns + i] =
        scales.g_factor * (there && scales.s_v != nullptr ? scales.s_v[c] : 1.0f);
  }
}
/// Of the two neighbouring columns from c of the tile on.
__device__ inline Factors factors_at(unsigned char* own, int c) {
  const float* from = floats_of(own) + kFactorsAt + c;
  return {*reinterpret_cast<const float2*>(from),
          *reinterpret_cast<const float2*>(from + kTileColumns)};
}
__device__ inline void store_three(const Maps& maps, const Spot& spot, int round, bool third) {
  const int at = spot.column + round * kSide;
  for (int i = 0; i < (third ? 3 : 2); ++i) {
    const unsigned square = spot.slot + static_cast<unsigned>(i) * kSquare;
    tile_copy::store_box(&maps.out[i], at, spot.row, 0, square);
  }
}

/// Of 32 values each lane keeps four, added up over the eight lanes with its lane % 4: those from
/// lane & 28 on.
template <int kHalf>
__device__ inline void scatter_sums(float (&v)[32]) {
  const bool upper = (threadIdx.x & kHalf) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float kept = upper ? v[i + kHalf] : v[i];
    v[i] = kept + __shfl_xor_sync(~0U, upper ? v[i] : v[i + kHalf], kHalf);
  }
  if constexpr (kHalf > 4) scatter_sums<kHalf / 2>(v);
}

/// A round brings 64 columns of u and g, in whose place du and dg come; y takes the third square.
template <Activation kAct>
struct Finish {
  struct Arg {
    Scales scales;
    float* sums_u;  // (product_partials(rows), columns); null: not wanted
    float* sums_v;
    bool value;  // whether y is wanted
  };
  static constexpr int kRounds = 4;
  static constexpr int kInputs = 2;

  __device__ static void begin(unsigned char* own, int column, const Shape& s, const Arg& arg) {
    fetch_factors(own, column, s, arg.scales);
  }
  __device__ static void load(
      const Maps& maps, unsigned to, int column, int row, int round, unsigned full) {
    tile_copy::copy_box(to, &maps.in[0], column + round * kSide, row, 0, full);
    tile_copy::copy_box(to + kSquare, &maps.in[1], column + round * kSide, row, 0, full);
  }
  __device__ static void work(const Spot& spot,
                              int round,
                              const float (&d)[kTileColumns / 2],
                              const Arg& arg,
                              const auto& halfway) {
    float sums[32];  // ds_u of this thread's sixteen columns, then ds_v; without their factors
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k == 2) halfway();
      unsigned u[4];
      unsigned g[4];
      unsigned y[4];
      wgmma::load_fragment(spot.slot, k, u);
      wgmma::load_fragment(spot.slot + kSquare, k, g);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const Factors by = factors_at(spot.own, round * kSide + 16 * k + wgmma::column_of(n));
        float2 of_u{};
        float2 of_g{};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int j = 2 * n + r;
          const float* dy = d + round * kSide / 2 + k * 8 + 2 * j;
          const Parts low = parts(dy[0], low_of(u[j]), low_of(g[j]), by.u.x, by.g.x);
          const Parts high = parts(dy[1], high_of(u[j]), high_of(g[j]), by.u.y, by.g.y);
          of_u.x += low.of_u;
          of_u.y += high.of_u;
          of_g.x += low.of_g;
          of_g.y += high.of_g;
          u[j] = rounded_pair(low.du, high.du);
          g[j] = rounded_pair(low.dg, high.dg);
          y[j] = rounded_pair(low.y, high.y);
        }
        sums[(2 * k + n) * 2] = of_u.x;
        sums[(2 * k + n) * 2 + 1] = of_u.y;
        sums[16 + (2 * k + n) * 2] = of_g.x;
        sums[16 + (2 * k + n) * 2 + 1] = of_g.y;
      }
      wgmma::store_fragment(spot.slot, k, u);
      wgmma::store_fragment(spot.slot + kSquare, k, g);
      if (arg.value) wgmma::store_fragment(spot.slot + 2 * kSquare, k, y);
    }
    if (!wants_sums(arg)) return;
    scatter_sums<16>(sums);
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroup / 32;
    float* to = floats_of(spot.own) + round % 2 * kRoundSums + warp * kSums;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int index = (wgmma::lane() & 28) + i;
      to[index / 16 * kSide + wgmma::column_of(index % 16 / 2) + index % 2] = sums[i];
    }
  }
  __device__ static void store(const Maps& maps, const Spot& spot, int round, const Arg& arg) {
    store_three(maps, spot, round, arg.value);
  }
  __device__ static void after(const Spot& spot, int round, const Shape& s, const Arg& arg) {
    if (!wants_sums(arg)) return;
    const int i = static_cast<int>(threadIdx.x) % kWarpgroup;
    const int column = spot.column + round * kSide + i % kSide;
    float* to = i < kSide ? arg.sums_u : arg.sums_v;
    if (to == nullptr || column >= s.columns || spot.row >= s.rows) return;
    const float* from = floats_of(spot.own) + round % 2 * kRoundSums + i;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) sum += from[w * kSums];
    to[static_cast<Index>(spot.row / kSide) * s.columns + column] = sum;
  }

 private:
  struct Parts {
    float du, dg, y, of_u, of_g;
  };
  __device__ static Parts parts(float dy, float u, float g, float by_u, float by_g) {
    const Curve<float> gate = activate<kAct>(by_g * g);
    const float opened = dy * gate.value;
    const float scaled = by_u * u;
    const float dgate = dy * scaled * gate.slope;
    return {opened * by_u, dgate * by_g, scaled * gate.value, opened * u, dgate * g};
  }
  __device__ static bool wants_sums(const Arg& arg) {
    return arg.sums_u != nullptr || arg.sums_v != nullptr;
  }
};

}  // namespace norma::kernels::products::gated_gradient
