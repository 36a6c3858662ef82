// How a product with few tiles and a long depth is dealt to clusters (product_ring.cuh).
//
// Tiles that fill all clusters are done whole. Those that are left are cut along the depth, so that
// all clusters end together:
//
//   a rich tile    its depth is cut evenly for `mains` + 1 clusters
//   a poor tile    `mains` clusters do the first `shared` of the depth, and `helpers` clusters of
//                  rich tiles, which are done sooner, an even part of the rest
//
// Ranges that followed each other regardless of tiles would be as even, but here clusters of
// different tiles walk down the same depth at the same time and find in the L2 cache what others
// brought.
#pragma once

#include <algorithm>

#include "norma/kernels/cuda/product_ring.cuh"

namespace norma::kernels::products {

/// Who does what. Depths are counted in blocks of 64.
struct Deal {
  int clusters;
  int across;  // tiles in a row of them
  int blocks;  // of the depth
  int whole;   // tiles that each cluster does alone
  int cut;     // tiles after those, of which the first `rich` are rich
  int rich;
  int mains;
  int helpers;
  int shared;
};

inline int ceil_of(int a, int b) { return (a + b - 1) / b; }

/// What it costs to store a part and add it, in blocks; parts that are not longer are not worth it.
inline constexpr int kPartCost = 6;

inline Deal deal_of(const Shape& s, int clusters) {
  const int across = ceil_of(s.columns, kTileColumns);
  const int tiles = across * ceil_of(s.rows, 2 * kTileRows);
  Deal d{.clusters = clusters,
         .across = across,
         .blocks = ceil_of(s.depth, kSide),
         .whole = tiles / clusters,
         .cut = tiles % clusters,
         .rich = 0,
         .mains = 1,
         .helpers = 0,
         .shared = 0};
  d.shared = d.blocks;
  if (d.cut == 0) return d;
  const int most = std::max(1, d.blocks / kPartCost);
  d.mains = std::min(clusters / d.cut, most);
  if (d.mains == most) return d;
  d.rich = clusters % d.cut;
  // A main of a poor tile shall take as long as one of a rich tile that helps afterwards.
  const int of_rich = ceil_of(d.blocks, d.mains + 1);
  for (int helpers = d.rich * (d.mains + 1) / (d.cut - d.rich); helpers > 0; --helpers) {
    const int main = ceil_of(d.blocks + helpers * of_rich, d.mains + helpers);
    if (d.blocks - d.mains * main < helpers * kPartCost) continue;
    if (main + kPartCost > d.blocks / d.mains) break;
    d.helpers = helpers;
    d.shared = d.mains * main;
    break;
  }
  return d;
}
/// Cut tiles that have more than one part: they come first.
inline int tiles_to_add(const Deal& d) { return d.mains + d.helpers > 1 ? d.cut : d.rich; }

/// What a cluster does at a time: a range of a tile's depth, which may be empty.
struct Turn {
  int tile = 0;
  int first = 0;
  int end = 0;
  int part = 0;  // where it goes, if it is not the whole depth
};
__device__ inline int turns(const Deal& d) { return d.whole + 2; }
__device__ inline Turn turn_of(const Deal& d, int cluster, int i) {
  if (i < d.whole) return {cluster + i * d.clusters, 0, d.blocks, 0};
  const int cut = d.whole * d.clusters;
  const int of_rich = d.rich * (d.mains + 1);
  if (i == d.whole && cluster < of_rich) {
    const int at = cluster % (d.mains + 1);
    return {cut + cluster / (d.mains + 1),
            d.blocks * at / (d.mains + 1),
            d.blocks * (at + 1) / (d.mains + 1),
            2 * cluster};
  }
  const int poor = d.cut - d.rich;
  if (i == d.whole) {
    const int tile = (cluster - of_rich) / d.mains;
    const int at = (cluster - of_rich) % d.mains;
    if (tile >= poor) return {};
    return {
        cut + d.rich + tile, d.shared * at / d.mains, d.shared * (at + 1) / d.mains, 2 * cluster};
  }
  if (cluster >= poor * d.helpers) return {};
  const int at = cluster % d.helpers;
  const int rest = d.blocks - d.shared;
  return {cut + d.rich + cluster / d.helpers,
          d.shared + rest * at / d.helpers,
          d.shared + rest * (at + 1) / d.helpers,
          2 * cluster + 1};
}
/// The parts of a cut tile, in the order of the depth.
__device__ inline int parts(const Deal& d, int cut) {
  return cut < d.rich ? d.mains + 1 : d.mains + d.helpers;
}
__device__ inline int part_of(const Deal& d, int cut, int i) {
  if (cut < d.rich) return 2 * (cut * (d.mains + 1) + i);
  const int poor = cut - d.rich;
  if (i < d.mains) return 2 * (d.rich * (d.mains + 1) + poor * d.mains + i);
  return 2 * (poor * d.helpers + i - d.mains) + 1;
}

}  // namespace norma::kernels::products
