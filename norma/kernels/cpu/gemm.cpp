#include "norma/kernels/gemm.h"

#include <algorithm>

namespace norma::kernels {

namespace {

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

/// How a product is cut: into tiles of at most kLargest squared; into at least kEnough of them so
/// that cores share the work, as long as no side gets shorter than kSmallest. Measured over the
/// products of three small GPTs on two cores: as fast as the library's own threading (bench:
/// linear).
struct Tiles {
  static constexpr Index kLargest = 512;
  static constexpr Index kEnough = 8;
  static constexpr Index kSmallest = 48;
  static constexpr Index kVector = 16;  // sides are whole vectors, but for the last tile

  Tiles(Index m, Index n) {
    Index down = ceil_div(m, kLargest);
    Index across = ceil_div(n, kLargest);
    while (down * across < kEnough) {
      const bool taller = m / down >= n / across;
      if (taller && m / down >= 2 * kSmallest) {
        down *= 2;
      } else if (n / across >= 2 * kSmallest) {
        across *= 2;
      } else {
        break;
      }
    }
    height = ceil_div(ceil_div(m, down), kVector) * kVector;
    width = ceil_div(ceil_div(n, across), kVector) * kVector;
    rows = ceil_div(m, height);
    cols = ceil_div(n, width);
  }
  Index height, width, rows, cols;
};

}  // namespace

void run(Cpu, const Gemm<float>& g) {
  const Tiles tiles(g.m, g.n);
#pragma omp parallel for schedule(static)
  for (Index t = 0; t < tiles.rows * tiles.cols; ++t) {
    const Index i = t / tiles.cols * tiles.height;
    const Index j = t % tiles.cols * tiles.width;
    Gemm<float> tile = g;
    tile.m = std::min(tiles.height, g.m - i);
    tile.n = std::min(tiles.width, g.n - j);
    tile.a += g.trans_a ? i : i * g.lda;
    tile.b += g.trans_b ? j * g.ldb : j;
    tile.c += i * g.ldc + j;
    if (g.addend != nullptr) tile.addend += i * g.ld_addend + j;
    run(CpuThread{}, tile);
  }
}

}  // namespace norma::kernels
