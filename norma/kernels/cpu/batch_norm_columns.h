// Loops that the forward and the backward kernel of batch_norm share.
#pragma once

#include <algorithm>

#include "norma/kernels/batch_norm.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

/// Columns are worked off in blocks of this many, one thread per block: no sum crosses threads. A
/// column is summed element by element, with no vector lanes to spread the rounding errors over, so
/// the sums are taken in double.
inline constexpr Index kBatchColumns = 32;

struct ColumnBlock {
  Index begin;
  Index width;
};

template <class F>
void for_each_column_block(Index rows, Index cols, F&& f) {
  const Index blocks = (cols + kBatchColumns - 1) / kBatchColumns;
  for_each_row(blocks, rows * kBatchColumns, [&](Index block) {
    const Index begin = block * kBatchColumns;
    f(ColumnBlock{begin, std::min(kBatchColumns, cols - begin)});
  });
}

/// f(row) for every valid row at position t.
template <class Args, class F>
void for_valid(const Args& a, Index t, F&& f) {
  for (Index b = 0; b < a.shape.batch; ++b) {
    if (a.lengths == nullptr || t < a.lengths[b]) f(b * a.shape.positions + t);
  }
}
/// f(row) for every padded row at position t.
template <class Args, class F>
void for_padded(const Args& a, Index t, F&& f) {
  for (Index b = 0; b < a.shape.batch; ++b) {
    if (a.lengths != nullptr && t >= a.lengths[b]) f(b * a.shape.positions + t);
  }
}

}  // namespace norma::kernels
