// What cross_entropy knows of a row of logits, gathered from threads, warps and blocks.
#pragma once

#include <climits>

#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

/// Of some of a row's classes. No initializers: it lies in shared memory.
template <class C>
struct Seen {
  C top;         // the largest z
  C others;      // Σ exp(z − top), without a hard target: what 1 − p is made of
  double sum;    // Σ z, for smoothing
  double mass;   // Σ soft target
  double cross;  // Σ soft target·z
  int first;     // the lowest class whose z is the largest
};
template <class C>
__device__ inline Seen<C> nothing_seen() {
  return {-static_cast<C>(INFINITY), 0, 0, 0, 0, INT_MAX};
}

/// Puts together what the lanes of a warp have seen and gives it to all of them.
template <class C>
__device__ inline void gather(Seen<C>& seen) {
  const C top = warp_max(seen.top);
  seen.others = warp_sum(seen.top == top ? seen.others : seen.others * exp_of(seen.top - top));
  seen.first = __reduce_min_sync(0xFFFFFFFFU, seen.top == top ? seen.first : INT_MAX);
  seen.top = top;
  seen.sum = warp_sum(seen.sum);
  seen.mass = warp_sum(seen.mass);
  seen.cross = warp_sum(seen.cross);
}

/// How du follows from u: dz = grow·exp(z − top) − even − keep·soft, or `hit` at a hard target.
template <class C>
struct RowWeights {
  C top;
  C grow;
  C even;
  C keep;
  C hit;
  bool ignored;  // du is zero
};

struct RowResult {
  RowWeights<double> weights;
  double loss;
};

/// `hit` is z of a hard target.
template <class T>
__device__ inline RowResult finish_row(const CrossEntropyLoss<T>& a,
                                       Index r,
                                       const Seen<double>& seen,
                                       double hit) {
  const bool hard = a.targets != nullptr;
  if (hard && a.targets[r] == -1) return {{0, 0, 0, 0, 0, true}, 0};
  if (hard && (a.targets[r] < 0 || a.targets[r] >= a.u.cols)) {
    const double none = static_cast<double>(NAN);
    return {{0, none, 0, 0, none, false}, none};
  }
  const double even = a.smoothing / static_cast<double>(a.u.cols);
  const double keep = 1 - a.smoothing;
  const double cross = hard ? hit - seen.top : seen.cross - seen.mass * seen.top;
  const double exps = hard ? seen.others + exp(cross) : seen.others;
  const double mass = keep * (hard ? 1 : seen.mass) + a.smoothing;
  const double log_sum = log(exps);
  const double lse = seen.top + log_sum;
  const double below = even == 0 ? 0 : seen.sum - static_cast<double>(a.u.cols) * seen.top;
  const double grow = (mass + 2 * a.z_loss * lse) / exps;
  // (1 + 2ζ·lse)·p − keep − even with p = 1 − others/exps: 1 − p does not cancel.
  const double at_hit = 2 * a.z_loss * lse + a.smoothing - even - grow * seen.others;
  const double tokens = *a.tokens;
  return {{seen.top, grow / tokens, even / tokens, keep / tokens, at_hit / tokens, false},
          mass * log_sum - keep * cross - even * below + a.z_loss * lse * lse};
}

}  // namespace norma::kernels
