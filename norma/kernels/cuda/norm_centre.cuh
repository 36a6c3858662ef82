// The mean and the spread of a row that a team holds, in two passes: the mean first, then the
// squares of what is left, so that an offset common to all entries costs no digits.
#pragma once

#include "norma/kernels/cuda/row_held.cuh"

namespace norma::kernels {

template <class C>
struct Spread {
  C mean;  // the mean is mean + shift: shift is what rounding left over
  C shift;
  C variance;
};

/// All threads of the block call it.
template <class C, class Team, class T>
__device__ inline Spread<C> spread(Team& team, const Held<Team, T>& x) {
  constexpr int N = Team::N;
  C total[1] = {};
  team.each([&](int p, int c) {
    C v[N];
    x.get(p, c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) total[0] += v[i];
  });
  team.sum(total);
  const auto count = static_cast<C>(team.width);
  const C mean = total[0] / count;  // of a constant row: its value, as C has bits to spare
  C left[2] = {};                   // Σ (x − mean), Σ (x − mean)²
  team.each([&](int p, int c) {
    C v[N];
    x.get(p, c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const C d = v[i] - mean;
      left[0] += d;
      left[1] += d * d;
    }
  });
  team.sum(left);
  const C shift = left[0] / count;
  return {mean, shift, fmax(left[1] / count - shift * shift, C{0})};
}

/// Stores the mean in two numbers of type P.
template <class C, class P>
__device__ inline void write_mean(const Spread<C>& s, P& mean, P& shift) {
  write(mean, s.mean);
  write(shift, (s.mean - read<C>(mean)) + s.shift);
}

}  // namespace norma::kernels
