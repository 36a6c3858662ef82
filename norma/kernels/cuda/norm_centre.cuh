// What norms need to know of a row that a team holds: the sum of its squares; or the mean and the
// spread, in two passes, the mean first, then the squares of what is left, so that an offset common
// to all entries costs no digits. And what norms make of it, here and in the gradient. What is
// rounded is written down rather than left to the compiler: a norm by itself and one behind an
// addition (add_norm.cu) give the same bits, and so do blocks that are made again.
#pragma once

#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/row_held.cuh"

namespace norma::kernels {

template <class C>
struct Spread {
  C mean;  // the mean is mean + shift: shift is what rounding left over
  C shift;
  C variance;
};

/// Σ x² of the rows of a batch. All threads of the block call it.
template <class C, class Team, class T, int kRows>
__device__ inline void squares(Team& team, Held<Team, T> (&x)[kRows], C (&of)[kRows]) {
  constexpr int N = Team::N;
#pragma unroll
  for (int k = 0; k < kRows; ++k) of[k] = 0;
  team.each([&](int p, int c) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      C v[N];
      x[k].get(p, c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) of[k] = fma(v[i], v[i], of[k]);
    }
  });
  team.sum(of);
#pragma unroll
  for (int k = 0; k < kRows; ++k) x[k].look_again();
}

/// Of the rows of a batch. All threads of the block call it.
template <class C, class Team, class T, int kRows>
__device__ inline void spread(Team& team, Held<Team, T> (&x)[kRows], Spread<C> (&of)[kRows]) {
  constexpr int N = Team::N;
  const C weight = 1 / static_cast<C>(team.width);
  C total[kRows] = {};
  team.each([&](int p, int c) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      C v[N];
      x[k].get(p, c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) total[k] += v[i];
    }
  });
  team.sum(total);
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    of[k].mean = total[k] * weight;
    x[k].look_again();
  }
  C left[kRows][2] = {};  // Σ (x − mean), Σ (x − mean)²
  team.each([&](int p, int c) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      C v[N];
      x[k].get(p, c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C d = v[i] - of[k].mean;
        left[k][0] += d;
        left[k][1] = fma(d, d, left[k][1]);
      }
    }
  });
  team.sum(left);
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    const C shift = left[k][0] * weight;  // of a constant row: what makes the mean its value
    of[k].shift = shift;
    of[k].variance = fmax(fma(-shift, shift, left[k][1] * weight), C{0});
    x[k].look_again();
  }
}

/// 1/√(Σ x² · weight + eps), weight the inverse of the row's width.
template <class C>
__device__ inline C rms_rstd(C squares, C weight, double eps) {
  return inverse_root(fma(squares, weight, static_cast<C>(eps)));
}

/// An element of the norm. Mean and bias of RMS norms are 0.
template <class C>
__device__ inline C normed(C x, C mean, C rstd, C gain, C bias) {
  return fma((x - mean) * rstd, gain, bias);
}

/// What a row held before, and the gradient of its norm: rstd times dy·gain less its parts along
/// what the norm takes out, the mean and x̂.
template <class C>
__device__ inline C plus_norm_gradient(
    C former, C rstd, C dy, C gain, C along_ones, C off_mean, C bend) {
  return fma(rstd, fma(-off_mean, bend, fma(dy, gain, -along_ones)), former);
}

/// Stores the mean in two numbers of type P.
template <class C, class P>
__device__ inline void write_mean(const Spread<C>& s, P& mean, P& shift) {
  write(mean, s.mean);
  write(shift, (s.mean - read<C>(mean)) + s.shift);
}

}  // namespace norma::kernels
