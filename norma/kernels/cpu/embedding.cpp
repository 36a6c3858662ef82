#include "norma/kernels/embedding.h"

#include <algorithm>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

/// The tokens of id v are order[ends[v − 1]] .. order[ends[v] − 1], with ends[−1] = 0.
struct Sorted {
  std::int32_t* ends;
  std::int32_t* order;
};

/// Counting sort of the tokens by id, in token order within an id. One thread is enough: this
/// touches two integers per token, the sums touch `width` floats.
Sorted sort_by_id(const EmbeddingBackward<float>& a) {
  std::int32_t* ends = a.integers;
  std::int32_t* order = a.integers + a.vocabulary;
  std::fill(ends, ends + a.vocabulary, 0);
  for (Index n = 0; n < a.dy.rows; ++n) ++ends[a.ids(n / a.ids.cols, n % a.ids.cols)];
  std::int32_t begin = 0;
  for (Index v = 0; v < a.vocabulary; ++v) {
    const std::int32_t count = ends[v];
    ends[v] = begin;
    begin += count;
  }
  for (Index n = 0; n < a.dy.rows; ++n) {
    const Index id = a.ids(n / a.ids.cols, n % a.ids.cols);
    order[ends[id]++] = static_cast<std::int32_t>(n);
  }
  return {ends, order};
}

template <bool kAdd>
void put_row(const float* __restrict from, float scale, Index n, float* __restrict to) {
  for (Index c = 0; c < n; ++c) put<kAdd>(to[c], scale * from[c]);
}

}  // namespace

void run(Cpu, const EmbeddingForward<float>& a) {
  const Index cols = a.y.cols;
  const auto scale = static_cast<float>(a.scale);
  for_each_row(a.y.rows, cols, [&](Index n) {
    const Index t = n % a.ids.cols;
    const float* __restrict entry = a.table + a.ids(n / a.ids.cols, t) * cols;
    float* __restrict y = a.y.row(n);
    if (a.positions == nullptr) {
      for (Index c = 0; c < cols; ++c) y[c] = scale * entry[c];
    } else {
      const float* __restrict position = a.positions + (a.first_position + t) * cols;
      for (Index c = 0; c < cols; ++c) y[c] = scale * (entry[c] + position[c]);
    }
  });
}

void run(Cpu, const EmbeddingBackward<float>& a) {
  const Sorted sorted = sort_by_id(a);
  const Index cols = a.dy.cols;
  const auto scale = static_cast<float>(a.scale);
  // A row belongs to one thread, whichever that is, and is summed in token order. Frequent ids
  // cluster at the low end of most vocabularies, so ranges are dealt out as threads become free.
#pragma omp parallel for schedule(dynamic, 64) if (a.vocabulary * cols > kParallelElements)
  for (Index v = 0; v < a.vocabulary; ++v) {
    const Index begin = v == 0 ? 0 : sorted.ends[v - 1];
    const Index end = sorted.ends[v];
    float* to = a.dtable + v * cols;
    bool add = a.dtable_into == Into::add;
    if (begin == end && !add) std::fill(to, to + cols, 0.0f);
    for (Index k = begin; k < end; ++k) {
      const float* from = a.dy.row(sorted.order[k]);
      if (add) {
        put_row<true>(from, scale, cols, to);
      } else {
        put_row<false>(from, scale, cols, to);
      }
      add = true;
    }
  }
}

}  // namespace norma::kernels
