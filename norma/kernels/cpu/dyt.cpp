#include "norma/kernels/dyt.h"

#include <algorithm>

#include "norma/kernels/flags.h"
#include "norma/kernels/parallel.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

namespace {

// A row is worked off in blocks, whose intermediate values stay in the first-level cache.
constexpr Index kBlock = 256;

template <Squash kSquash>
inline float value_of(float u) {
  if constexpr (kSquash == Squash::tanh) {
    return tanhf(u);
  } else {
    return erff(u);
  }
}

template <Squash kSquash>
void forward(const DytForward<float>& a) {
  const float factor = *a.a;
  const float shift = a.s == nullptr ? 0.0f : *a.s;
  const Index n = a.x.cols;
  for_each_row(a.x.rows, n, [&](Index r) {
    const float* __restrict x = a.x.row(r);
    const float* __restrict gain = a.gain;
    const float* __restrict bias = a.bias;
    float* __restrict y = a.y.row(r);
    with_flags(gain != nullptr, bias != nullptr, [=](auto has_gain, auto has_bias) {
#pragma omp simd
      for (Index c = 0; c < n; ++c) {
        float value = value_of<kSquash>(factor * x[c] + shift);
        if constexpr (has_gain) value *= gain[c];
        if constexpr (has_bias) value += bias[c];
        y[c] = value;
      }
    });
  });
}

/// The sums over rows that one chunk collects; null: not wanted.
struct Partials {
  float* dgain = nullptr;
  float* dbias = nullptr;
  float* da = nullptr;
  float* ds = nullptr;
};

template <Squash kSquash>
void backward_block(const DytBackward<float>& a, Index r, Index begin, const Partials& to) {
  const float factor = *a.a;
  const float shift = a.s == nullptr ? 0.0f : *a.s;
  const Index n = std::min(kBlock, a.x.cols - begin);
  const float* __restrict x = a.x.row(r) + begin;
  const float* __restrict dy = a.dy.row(r) + begin;
  float value[kBlock];  // f(u); for erf only where dgain is wanted
  float du[kBlock];     // dy·gain·f'(u)
  if constexpr (kSquash == Squash::tanh) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) {
      const float t = tanhf(factor * x[c] + shift);
      value[c] = t;
      du[c] = dy[c] * ((1.0f - t) * (1.0f + t));
    }
  } else {
#pragma omp simd
    for (Index c = 0; c < n; ++c) {
      const float u = factor * x[c] + shift;
      du[c] = dy[c] * (1.12837917f * expf(-u * u));
    }
    if (to.dgain != nullptr) {
#pragma omp simd
      for (Index c = 0; c < n; ++c) value[c] = erff(factor * x[c] + shift);
    }
  }
  if (a.gain != nullptr) {
    const float* __restrict gain = a.gain + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) du[c] *= gain[c];
  }
  if (to.dgain != nullptr) {
    float* __restrict dgain = to.dgain + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) dgain[c] += dy[c] * value[c];
  }
  if (to.dbias != nullptr) {
    float* __restrict dbias = to.dbias + begin;
#pragma omp simd
    for (Index c = 0; c < n; ++c) dbias[c] += dy[c];
  }
  if (to.da != nullptr) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index c = 0; c < n; ++c) sum += du[c] * x[c];
    *to.da += sum;
  }
  if (to.ds != nullptr) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index c = 0; c < n; ++c) sum += du[c];
    *to.ds += sum;
  }
  if (!a.dx) return;
  float* __restrict dx = a.dx.row(r) + begin;
  with_into(a.dx_into, [&](auto add) {
#pragma omp simd
    for (Index c = 0; c < n; ++c) put<add>(dx[c], factor * du[c]);
  });
}

template <Squash kSquash>
void backward(const DytBackward<float>& a) {
  const Index cols = a.x.cols;
  const Index width = 2 * cols + 2;  // dgain, dbias, da, ds side by side
  const bool sums = a.dgain != nullptr || a.dbias != nullptr || a.da != nullptr || a.ds != nullptr;
  const RowChunks chunks(a.x.rows);
  for_each_chunk(chunks, cols, [&](Index chunk, Index begin, Index end) {
    Partials to;
    if (sums) {
      float* partial = a.partials + chunk * width;
      std::fill(partial, partial + width, 0.0f);
      if (a.dgain != nullptr) to.dgain = partial;
      if (a.dbias != nullptr) to.dbias = partial + cols;
      if (a.da != nullptr) to.da = partial + 2 * cols;
      if (a.ds != nullptr) to.ds = partial + 2 * cols + 1;
    }
    for (Index r = begin; r < end; ++r) {
      for (Index at = 0; at < cols; at += kBlock) backward_block<kSquash>(a, r, at, to);
    }
  });
  const auto finish = [&](Index first, Index n, float* out, Into into) {
    if (out == nullptr) return;
    for (Index c = 0; c < n; ++c) {
      float sum = 0;
      for (Index k = 0; k < chunks.count; ++k) sum += a.partials[k * width + first + c];
      out[c] = into == Into::add ? out[c] + sum : sum;
    }
  };
  finish(0, cols, a.dgain, a.dgain_into);
  finish(cols, cols, a.dbias, a.dbias_into);
  finish(2 * cols, 1, a.da, a.da_into);
  finish(2 * cols + 1, 1, a.ds, a.ds_into);
}

}  // namespace

void run(Cpu, const DytForward<float>& a) {
  if (a.squash == Squash::tanh) {
    forward<Squash::tanh>(a);
  } else {
    forward<Squash::erf>(a);
  }
}

void run(Cpu, const DytBackward<float>& a) {
  if (a.squash == Squash::tanh) {
    backward<Squash::tanh>(a);
  } else {
    backward<Squash::erf>(a);
  }
}

}  // namespace norma::kernels
