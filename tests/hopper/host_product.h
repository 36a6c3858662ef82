// What tests of products on the host share (norma/kernels/cuda/product_ring.cuh).
#pragma once

#include <cmath>

#include <gtest/gtest.h>

#include "norma/kernels/cuda/product_ring.cuh"
#include "tests/hopper/host_rows.h"

namespace norma::kernels {

/// Two clusters do all tiles, so that rings go around.
inline constexpr unsigned kProductBlocks = 4;

inline hopper::Launch product_launch(hopper::When when, unsigned blocks = kProductBlocks) {
  return {.blocks = blocks, .threads = products::kThreads, .when = when, .seed = 1, .cluster = 2};
}
inline constexpr hopper::When kBothWays[] = {hopper::When::at_once, hopper::When::late};

inline CUtensorMap map_of(HostRows& rows, const tile_copy::Box& box = {}) {
  CUtensorMap map;
  tile_copy::describe(rows.all(), map, box);
  return map;
}
inline products::Shape shape_of(Index rows, Index columns, Index depth) {
  return {static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(depth)};
}

/// What is rounded to bf16 once is wanted(row, column), number by number.
template <class Wanted>
void expect_rounded(const HostRows& got, const Wanted& wanted) {
  for (Index r = 0; r < got.rows(); ++r) {
    for (Index c = 0; c < got.cols(); ++c) {
      const double want = wanted(r, c);
      ASSERT_NEAR(got.at(r, c), want, 0x1p-8 * std::abs(want) + 1e-5) << r << " " << c;
    }
  }
  EXPECT_TRUE(got.is_untouched_behind());
}

}  // namespace norma::kernels
