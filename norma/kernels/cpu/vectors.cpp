#include "norma/kernels/vectors.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/cpu/vector_blocks.h"

namespace norma::kernels {

void scale_columns(float* w, Index rows, Index cols, Keep keep, float* partials) {
  const Index chunks = RowChunks(rows).count;
  for (Index c = 0; c < cols; ++c) {
    double squares = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      squares += static_cast<double>(partials[chunk * cols + c]);
    }
    partials[c] = keeping_factor(squares, keeps_short(keep));
  }
  const float* __restrict factors = partials;
  for_each_row(rows, cols, [&](Index r) {
    float* __restrict row = w + r * cols;
#pragma omp simd
    for (Index c = 0; c < cols; ++c) row[c] *= factors[c];
  });
}

void run(Cpu, const KeepVectors<float>& a) {
  float* w = a.w;
  if (keeps_columns(a.keep)) {
    for_each_chunk(RowChunks(a.rows), a.cols, [&](Index chunk, Index begin, Index end) {
      float* __restrict sums = a.partials + chunk * a.cols;
      std::fill(sums, sums + a.cols, 0.0f);
      for (Index r = begin; r < end; ++r) {
        const float* __restrict row = w + r * a.cols;
#pragma omp simd
        for (Index c = 0; c < a.cols; ++c) sums[c] += row[c] * row[c];
      }
    });
    scale_columns(w, a.rows, a.cols, a.keep, a.partials);
  } else if (keeps_rows(a.keep)) {
    const bool only_long = keeps_short(a.keep);
    for_each_row(a.rows, a.cols, [&](Index r) {
      const RowBlock row({a.rows, a.cols, false}, r);
      double squares = 0;
      row.sum(&squares, [w](Index i, Index) { return w[i] * w[i]; });
      const float factor = keeping_factor(squares, only_long);
      row.each([w, factor](Index i, Index) { w[i] *= factor; });
    });
  }
}

void run(Cpu, const TangentProject<float>& a) {
  const float* w = a.w;
  float* g = a.g;
  for_each_block(a.layout, [&]<class Block>(const Block& block) {
    double squares[Block::kMost];
    double dots[Block::kMost];
    float along[Block::kMost];
    block.sum(squares, [=](Index i, Index) { return w[i] * w[i]; });
    block.sum(dots, [=](Index i, Index) { return w[i] * g[i]; });
    for (Index k = 0; k < block.count(); ++k) {
      along[k] = squares[k] == 0 ? 0.0f : static_cast<float>(dots[k] / squares[k]);
    }
    block.each([&](Index i, Index k) { g[i] -= along[k] * w[i]; });
  });
}

void run(Cpu, const AngularCap<float>& a) {
  const float* old = a.before;
  float* w = a.w;
  for_each_block(a.layout, [&]<class Block>(const Block& block) {
    double dots[Block::kMost];
    double squares[Block::kMost];
    double tangents[Block::kMost];
    float along[Block::kMost];
    float keep_old[Block::kMost];
    float keep_new[Block::kMost];
    block.sum(dots, [=](Index i, Index) { return old[i] * w[i]; });
    block.sum(squares, [=](Index i, Index) { return w[i] * w[i]; });
    for (Index k = 0; k < block.count(); ++k) along[k] = static_cast<float>(dots[k]);
    block.sum(tangents, [&](Index i, Index k) {
      const float t = w[i] - along[k] * old[i];
      return t * t;
    });
    for (Index k = 0; k < block.count(); ++k) {
      const double tangent = std::sqrt(tangents[k]);
      if (std::atan2(tangent, dots[k]) > a.cap) {
        // cos(cap)·old + sin(cap)·(w − along·old)/|t|
        keep_new[k] = static_cast<float>(std::sin(a.cap) / tangent);
        keep_old[k] = static_cast<float>(std::cos(a.cap) - std::sin(a.cap) / tangent * dots[k]);
      } else {
        keep_new[k] = keeping_factor(squares[k], false);
        keep_old[k] = 0.0f;
      }
    }
    block.each([&](Index i, Index k) { w[i] = keep_new[k] * w[i] + keep_old[k] * old[i]; });
    // A capped vector is a difference of two long ones where the cap is small: make it unit again.
    block.sum(squares, [=](Index i, Index) { return w[i] * w[i]; });
    for (Index k = 0; k < block.count(); ++k) keep_new[k] = keeping_factor(squares[k], false);
    block.each([&](Index i, Index k) { w[i] *= keep_new[k]; });
  });
}

void run(Cpu, const NormalizeDirection<float>& a) {
  float* o = a.o;
  const auto length = static_cast<double>(a.layout.length());
  for_each_block(a.layout, [&]<class Block>(const Block& block) {
    double squares[Block::kMost];
    float factor[Block::kMost];
    block.sum(squares, [=](Index i, Index) { return o[i] * o[i]; });
    for (Index k = 0; k < block.count(); ++k) {
      float& nu = a.nu[block.vector(k)];
      nu = static_cast<float>(a.beta2 * static_cast<double>(nu) +
                              (1 - a.beta2) * squares[k] / length);
      factor[k] = 1.0f / std::sqrt(std::max(nu, 1e-10f));
    }
    block.each([&](Index i, Index k) { o[i] *= factor[k]; });
  });
}

void run(Cpu, const AdaptiveClip<float>& a) {
  const float* w = a.w;
  float* g = a.g;
  for_each_block(a.layout, [&]<class Block>(const Block& block) {
    double weights[Block::kMost];
    double gradients[Block::kMost];
    float factor[Block::kMost];
    block.sum(weights, [=](Index i, Index) { return w[i] * w[i]; });
    block.sum(gradients, [=](Index i, Index) { return g[i] * g[i]; });
    bool any = false;
    for (Index k = 0; k < block.count(); ++k) {
      const double bound = a.clip * std::max(std::sqrt(weights[k]), 1e-3);
      const double length = std::sqrt(gradients[k]);
      const bool clip = length > bound;
      any = any || clip;
      factor[k] = clip ? static_cast<float>(bound / length) : 1.0f;
      a.clipped[block.vector(k)] = clip ? 1.0f : 0.0f;
    }
    if (any) block.each([&](Index i, Index k) { g[i] *= factor[k]; });
  });
}

}  // namespace norma::kernels
