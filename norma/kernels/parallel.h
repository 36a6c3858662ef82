// Loops over rows on all threads, and sums over rows whose bits do not depend on the thread count.
#pragma once

#include <algorithm>
#include <type_traits>

#include "norma/base/into.h"
#include "norma/base/types.h"

namespace norma::kernels {

// A parallel region costs a few microseconds; below this many elements one thread is quicker.
inline constexpr Index kParallelElements = 1 << 13;

/// f(r) for every row, in any order. `cols` is the work per row in elements.
template <class F>
void for_each_row(Index rows, Index cols, F&& f) {
#pragma omp parallel for schedule(static) if (rows * cols > kParallelElements)
  for (Index r = 0; r < rows; ++r) f(r);
}

/// Rows in chunks that depend on the row count alone. Each chunk sums its rows in order, the chunks
/// are then added in order: the same bits for any number of threads.
struct RowChunks {
  explicit RowChunks(Index row_count, Index most = kMost)
      : rows(row_count),
        size(std::max<Index>(16, (row_count + most - 1) / most)),
        count((row_count + size - 1) / size) {}
  Index begin(Index chunk) const { return chunk * size; }
  Index end(Index chunk) const { return std::min(rows, (chunk + 1) * size); }

  static constexpr Index kMost = 64;
  static constexpr Index kMostOnGpu = 264;  // two for each multiprocessor of a large GPU
  Index rows;
  Index size;
  Index count;
};

/// f(chunk, begin, end) for every chunk of rows, chunks spread over threads.
template <class F>
void for_each_chunk(const RowChunks& chunks, Index cols, F&& f) {
#pragma omp parallel for schedule(static) if (chunks.rows * cols > kParallelElements)
  for (Index chunk = 0; chunk < chunks.count; ++chunk) {
    f(chunk, chunks.begin(chunk), chunks.end(chunk));
  }
}

/// Adds the partial sums of all chunks, chunk by chunk: out (cols) from partials (count, cols).
template <class T>
void sum_partials(const T* partials, Index count, Index cols, T* out, Into into) {
  constexpr Index kBlock = 256;
  T sums[kBlock];
  for (Index begin = 0; begin < cols; begin += kBlock) {
    const Index n = std::min(kBlock, cols - begin);
    std::fill(sums, sums + n, T{0});
    for (Index chunk = 0; chunk < count; ++chunk) {
      const T* part = partials + chunk * cols + begin;
      for (Index c = 0; c < n; ++c) sums[c] += part[c];
    }
    for (Index c = 0; c < n; ++c) {
      out[begin + c] = into == Into::add ? out[begin + c] + sums[c] : sums[c];
    }
  }
}

/// Calls f(std::bool_constant<add>{}) so that inner loops are compiled for one case each.
template <class F>
void with_into(Into into, F&& f) {
  if (into == Into::add) {
    f(std::true_type{});
  } else {
    f(std::false_type{});
  }
}

/// Sets or adds, decided at compile time.
template <bool kAdd, class T>
inline void put(T& slot, T value) {
  if constexpr (kAdd) {
    slot += value;
  } else {
    slot = value;
  }
}

}  // namespace norma::kernels
