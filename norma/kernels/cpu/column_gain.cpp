#include "norma/kernels/column_gain.h"

#include <algorithm>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

/// to (+)= factor · x
void put_scaled(const float* __restrict x, float factor, Index n, float* __restrict to, Into into) {
  with_into(into, [&](auto add) {
    for (Index c = 0; c < n; ++c) put<add>(to[c], x[c] * factor);
  });
}

/// to (+)= mult · gain · x
void put_gained(const float* __restrict x,
                const float* __restrict gain,
                float mult,
                Index n,
                float* __restrict to,
                Into into) {
  with_into(into, [&](auto add) {
    for (Index c = 0; c < n; ++c) put<add>(to[c], x[c] * (mult * gain[c]));
  });
}

/// One row: to (+)= x times the gain of each column.
void apply_row(
    const float* x, const float* gain, Index block, Index cols, float mult, float* to, Into into) {
  if (gain == nullptr) {
    put_scaled(x, mult, cols, to, into);
  } else if (block == 1) {
    put_gained(x, gain, mult, cols, to, into);
  } else {
    for (Index at = 0; at < cols; at += block) {
      put_scaled(x + at, mult * gain[at / block], block, to + at, into);
    }
  }
}

/// One row: sums += mult · x · dy
void sum_row(const float* __restrict x,
             const float* __restrict dy,
             float mult,
             Index cols,
             float* __restrict sums) {
  for (Index c = 0; c < cols; ++c) sums[c] += dy[c] * x[c] * mult;
}

/// One row of a shared gain: sums += x · dy over the columns of each block, in double. Such a sum
/// is one number out of many terms of both signs, and rounded in f32 it could lose most of its
/// digits. Memory is the limit here, not arithmetic.
void sum_blocks(const float* __restrict x,
                const float* __restrict dy,
                Index block,
                Index cols,
                double* __restrict sums) {
  for (Index at = 0; at < cols; at += block) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index c = at; c < at + block; ++c) {
      sum += static_cast<double>(dy[c]) * static_cast<double>(x[c]);
    }
    sums[at / block] += sum;
  }
}

void add_shared(const ColumnGainBackward<float>& a, Index chunks, Index gains) {
  for (Index g = 0; g < gains; ++g) {
    double sum = 0;
    for (Index chunk = 0; chunk < chunks; ++chunk) sum += a.shared[chunk * gains + g];
    sum *= a.mult;
    a.dgain[g] = static_cast<float>(a.dgain_into == Into::add ? a.dgain[g] + sum : sum);
  }
}

}  // namespace

void run(Cpu, const ColumnGainForward<float>& a) {
  const auto mult = static_cast<float>(a.mult);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    apply_row(a.x.row(r), a.gain, a.block, a.x.cols, mult, a.y.row(r), Into::set);
  });
}

void run(Cpu, const ColumnGainBackward<float>& a) {
  const Index cols = a.dy.cols;
  const Index gains = cols / a.block;
  const auto mult = static_cast<float>(a.mult);
  const RowChunks chunks(a.dy.rows);
  for_each_chunk(chunks, cols, [&](Index chunk, Index begin, Index end) {
    float* partial = a.partials == nullptr ? nullptr : a.partials + chunk * cols;
    double* shared = a.shared == nullptr ? nullptr : a.shared + chunk * gains;
    if (partial != nullptr) std::fill(partial, partial + cols, 0.0f);
    if (shared != nullptr) std::fill(shared, shared + gains, 0.0);
    for (Index r = begin; r < end; ++r) {
      if (partial != nullptr) sum_row(a.x.row(r), a.dy.row(r), mult, cols, partial);
      if (shared != nullptr) sum_blocks(a.x.row(r), a.dy.row(r), a.block, cols, shared);
      if (a.dx) {
        apply_row(a.dy.row(r), a.gain, a.block, cols, mult, a.dx.row(r), a.dx_into);
      }
    }
  });
  if (a.partials != nullptr) sum_partials(a.partials, chunks.count, cols, a.dgain, a.dgain_into);
  if (a.shared != nullptr) add_shared(a, chunks.count, gains);
}

}  // namespace norma::kernels
