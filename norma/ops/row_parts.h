// How many rows at a time, where all of them would take too much memory.
#pragma once

#include <algorithm>

#include "norma/base/types.h"

namespace norma {

/// Rows of each part but the last, which may have fewer; never more than `most`. Products are
/// quickest in whole tiles and when no part is a small one: so parts are equal multiples of 128
/// where at most half as many again as needed can be that, and else about equal multiples of 128.
constexpr Index rows_of_part(Index rows, Index most) {
  constexpr Index kMultiple = 128;
  const auto shares = [](Index whole, Index part) { return (whole + part - 1) / part; };
  most = std::max<Index>(most, 1);
  if (rows <= most) return rows;
  if (most < kMultiple) return shares(rows, shares(rows, most));
  const Index tiles = shares(rows, kMultiple);
  const Index fewest = shares(tiles, most / kMultiple);
  if (rows % kMultiple == 0) {
    for (Index parts = fewest; parts <= fewest + fewest / 2; ++parts) {
      if (tiles % parts == 0) return tiles / parts * kMultiple;
    }
  }
  return shares(tiles, fewest) * kMultiple;
}

}  // namespace norma
