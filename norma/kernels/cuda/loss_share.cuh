// The part of the logits that one block of cross_entropy has: some columns of a chunk of rows. A
// thread always has the same columns, so what belongs to a column (the sum that makes up dscale) is
// its own, and no other thread has to be waited for.
#pragma once

#include "norma/kernels/cuda/loss_row.cuh"

namespace norma::kernels {

inline constexpr int kLossRows = 2;  // at a time

__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

/// z of a class from its logit u and factor f.
template <class C>
struct Curve {
  // From here on the last bit of z is worth 1/2 or more. Then all z are taken as they are rounded:
  // else the largest could lie far beside itself, and exp would overflow or vanish.
  static constexpr C kCoarse = sizeof(C) == sizeof(float) ? C{1 << 22} : C{1LL << 51};

  C cap;  // 0: none
  __device__ C z(C u, C f) const {
    // Left to itself, the compiler would join this product with the difference in above().
    return cap > 0 ? cap * tanh(f * u / cap) : rounded_product(f, u);
  }
  /// z − from; the product is not rounded before the difference, so that large logits that lie
  /// close together keep their distance.
  __device__ C above(C u, C f, C from) const {
    return cap == 0 && fabs(from) < kCoarse ? fma(f, u, -from) : z(u, f) - from;
  }
  /// dz/dz0 = 1 − tanh² = 4e/(1+e)², e = exp(−2|z0/C|): it keeps its digits where tanh is near 1.
  __device__ C slope(C u, C f) const {
    if (cap == 0) return 1;
    const C e = exp(-2 * fabs(f * u / cap));
    return 4 * e / ((1 + e) * (1 + e));
  }
};

/// The rows of one block.
template <class T, int N>
struct Share {
  using C = Math<T>;
  static constexpr int R = kLossRows;

  const CrossEntropyLoss<T>& a;
  Index begin;  // rows
  Index end;
  Index chunk;
  int offset;  // first column
  int packs;
  Curve<C> curve;

  __device__ void read_factors(int p, C (&f)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      f[k] = a.scale == nullptr
                 ? C{1}
                 : static_cast<C>(a.scale_mult) * read<C>(a.scale[offset + p * N + k]);
    }
  }
  /// The place of a row's target among this block's columns; beyond them all where it has none.
  __device__ unsigned target(Index row) const {
    if (a.targets == nullptr || row >= end) return 1U << 31;
    return static_cast<unsigned>(a.targets[row]) - static_cast<unsigned>(offset);
  }

  __device__ void look(Index row, Seen<C> (&seen)[R], double* hits) const {
    unsigned targets[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      seen[r] = nothing_seen<C>();
      targets[r] = target(row + r);
    }
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      C f[N];
      read_factors(p, f);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (row + r < end) {
          C u[N];
          read_pack(a.u.row(row + r) + offset + p * N, u);
          look_at(row + r, p, u, f, targets[r] - static_cast<unsigned>(p * N), seen[r], hits[r]);
        }
      }
    }
  }
  /// `here` is the place of the target in the pack, if it is below N.
  __device__ void look_at(Index row,
                          int p,
                          const C (&u)[N],
                          const C (&f)[N],
                          unsigned here,
                          Seen<C>& seen,
                          double& hit) const {
    C z[N];
    C most = -static_cast<C>(INFINITY);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      z[k] = curve.z(u[k], f[k]);
      most = fmax(most, z[k]);  // passes over NaN, which the sum below meets
    }
    if (most > seen.top) {
      seen.others *= exp_of(seen.top - most);
      seen.top = most;
      if (a.right != nullptr) {
#pragma unroll
        for (int k = N - 1; k >= 0; --k) {
          if (z[k] == most) seen.first = offset + p * N + k;
        }
      }
    }
    // Classes that were ruled out have z = −inf; a thread may see only such.
    const C from = seen.top == -static_cast<C>(INFINITY) ? 0 : seen.top;
    C above[N];
#pragma unroll
    for (int k = 0; k < N; ++k) above[k] = curve.above(u[k], f[k], from);
    if (here < N) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (k != static_cast<int>(here)) continue;
        const bool rounded = a.softcap > 0 || fabs(z[k]) >= curve.kCoarse;
        hit = rounded ? static_cast<double>(z[k])
                      : static_cast<double>(f[k]) * static_cast<double>(u[k]);
        above[k] = -static_cast<C>(INFINITY);
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) seen.others += exp_of(above[k]);
    add_sums(row, p, z, seen);
  }
  __device__ void add_sums(Index row, int p, const C (&z)[N], Seen<C>& seen) const {
    if (a.smoothing > 0) {
#pragma unroll
      for (int k = 0; k < N; ++k) seen.sum += static_cast<double>(z[k]);
    }
    if (!a.soft) return;
    double soft[N];
    read_pack(a.soft.row(row) + offset + p * N, soft);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      seen.mass += soft[k];
      seen.cross += soft[k] * static_cast<double>(z[k]);
    }
  }

  __device__ void write_gradient(Index row, const RowWeights<C>* weights) const {
    unsigned targets[R];
#pragma unroll
    for (int r = 0; r < R; ++r) targets[r] = target(row + r);
    for (int p = threadIdx.x; p < packs; p += blockDim.x) {
      C f[N];
      read_factors(p, f);
      C passed[N];
#pragma unroll
      for (int k = 0; k < N; ++k) passed[k] = f[k];
      if (a.precondition != 0) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          passed[k] = read<C>(a.factors[a.u.cols + offset + p * N + k]);
        }
      }
      C added[N] = {};
#pragma unroll
      for (int r = 0; r < R; ++r) {
        if (row + r < end) {
          C u[N];
          read_pack(a.u.row(row + r) + offset + p * N, u);
          C dz[N] = {};
          if (!weights[r].ignored) {  // such a row may hold anything
            slopes(row + r, p, u, f, targets[r] - static_cast<unsigned>(p * N), weights[r], dz);
#pragma unroll
            for (int k = 0; k < N; ++k) {
              added[k] += dz[k] * u[k];
              dz[k] *= passed[k];
            }
          }
          write_pack(a.du.row(row + r) + offset + p * N, dz);
        }
      }
      if (a.dscale != nullptr) add_to_scale(row, p, added);
    }
  }
  /// dz0, the gradients before the scale.
  __device__ void slopes(Index row,
                         int p,
                         const C (&u)[N],
                         const C (&f)[N],
                         unsigned here,
                         const RowWeights<C>& w,
                         C (&dz)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) dz[k] = w.grow * exp_of(curve.above(u[k], f[k], w.top));
    C soft[N] = {};
    if (a.soft) read_pack(a.soft.row(row) + offset + p * N, soft);
#pragma unroll
    for (int k = 0; k < N; ++k) dz[k] -= w.even + w.keep * soft[k];
    if (here < N) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (k == static_cast<int>(here)) dz[k] = w.hit;
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) dz[k] *= curve.slope(u[k], f[k]);
  }
  /// A column is one thread's, row after row: the order of the sum is fixed.
  __device__ void add_to_scale(Index row, int p, const C (&added)[N]) const {
    Wide<T>* to = a.partials + chunk * a.u.cols + offset + p * N;
#pragma unroll
    for (int k = 0; k < N; ++k) put(to[k], added[k], row == begin ? Into::set : Into::add);
  }
};

}  // namespace norma::kernels
