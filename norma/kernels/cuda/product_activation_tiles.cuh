// An activation and its gradient on the tiles of the product that brings it its own
// (product_tiles.cuh).
#pragma once

#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/product_tiles.cuh"

namespace norma::kernels::products {

/// A round has two squares of h, in whose place dh comes, and two of z: the third of the slot and
/// one of the warpgroup's own.
template <Activation kAct>
struct ActivationGradient {
  struct Arg {
    bool value;  // whether z is wanted
  };
  static constexpr int kRounds = 2;
  static constexpr int kInputs = 2;

  __device__ static void begin(unsigned char*, int, const Shape&, const Arg&) {}
  __device__ static void load(
      const Maps& maps, unsigned to, int column, int row, int round, unsigned full) {
    for (int q = 0; q < 2; ++q) {
      const int at = column + (2 * round + q) * kSide;
      tile_copy::copy_box(to + static_cast<unsigned>(q) * kSquare, &maps.in[0], at, row, 0, full);
    }
  }
  __device__ static unsigned z_square(const Spot& spot, int q, int round) {
    return q == 0 ? spot.slot + 2 * kSquare : square_of(spot.own, round);
  }
  __device__ static void work(const Spot& spot,
                              int round,
                              const float (&d)[kTileColumns / 2],
                              const Arg& arg,
                              const auto& halfway) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      if (q == 1) halfway();
      const unsigned square = spot.slot + static_cast<unsigned>(q) * kSquare;
      unsigned held[4][4];
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma::load_fragment(square, k, held[k]);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned z[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* dz = d + (2 * round + q) * kSide / 2 + k * 8 + 2 * j;
          const auto low = activate<kAct>(low_of(held[k][j]));
          const auto high = activate<kAct>(high_of(held[k][j]));
          held[k][j] = rounded_pair(dz[0] * low.slope, dz[1] * high.slope);
          z[j] = rounded_pair(low.value, high.value);
        }
        wgmma::store_fragment(square, k, held[k]);
        if (arg.value) wgmma::store_fragment(z_square(spot, q, round), k, z);
      }
    }
  }
  __device__ static void store(const Maps& maps, const Spot& spot, int round, const Arg& arg) {
    for (int q = 0; q < 2; ++q) {
      const int at = spot.column + (2 * round + q) * kSide;
      const unsigned square = spot.slot + static_cast<unsigned>(q) * kSquare;
      tile_copy::store_box(&maps.out[0], at, spot.row, 0, square);
      if (arg.value) {
        tile_copy::store_box(&maps.out[1], at, spot.row, 0, z_square(spot, q, round));
      }
    }
  }
  __device__ static void after(const Spot&, int, const Shape&, const Arg&) {}
};

}  // namespace norma::kernels::products
