// What the two quick forms of cross_entropy share. They take what training gives: logits of bf16,
// ids as targets, no smoothing, cap or preconditioning. Floats are enough there: the loss is wanted
// to 2e-5, the gradients to the eight bits of bf16.
#pragma once

#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/cuda/logit_bits.cuh"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

using QuickLoss = CrossEntropyLoss<Bf16>;

/// Each says whether it could; if not, nothing has happened.
bool run_plain(const QuickLoss& a);   // without a scale per class
bool run_scaled(const QuickLoss& a);  // with one

/// Of some of a row's classes. No initializers: it lies in shared memory.
struct Part {
  float top;     // the largest z
  float others;  // Σ 2^(z − top), without the target: what 1 − p is made of
};
__device__ inline Part no_part() { return {-INFINITY, 0}; }

/// The largest that a lane of a warp has, none of which is NaN: one instruction, for integers.
__device__ inline float warp_top(float value) {
  const auto turn = [](int bits) { return bits < 0 ? bits ^ 0x7FFFFFFF : bits; };
  return __int_as_float(turn(__reduce_max_sync(0xFFFFFFFFU, turn(__float_as_int(value)))));
}
/// Puts together what the lanes of a warp have and gives it to all of them. kLanes: every group of
/// so many has the same.
template <int kLanes = 32>
__device__ inline Part gather(Part part) {
  const float top = warp_top(part.top);
  const float others = part.top == top ? part.others : part.others * quick_exp2(part.top - top);
  return {top, warp_sum<kLanes>(others)};
}

/// What a row comes to, in nats: dz = grow·2^(z − top), but `hit` at the target.
struct RowEnd {
  float grow;
  float hit;
  float loss;
};
struct LossRule {
  Index classes;
  double z_loss;
};
/// `all.top` is the largest z, or another that is not far from it; `beside` the target's z − top,
/// `share` one over the tokens. Every thread that asks gets the same bits; the loss, if it says
/// that it is `telling`: it takes longer than the rest.
__device__ inline RowEnd end_row(
    const LossRule& rule, int target, const Part& all, float beside, float share, bool telling) {
  constexpr float kClose = 8;
  if (target == -1) return {0, 0, 0};
  if (target < 0 || target >= rule.classes) return {NAN, NAN, NAN};
  const auto zeta = static_cast<float>(rule.z_loss);
  const float cross = kNatsPerBit * beside;
  const float exps = all.others + expf(cross);
  const float log_sum = logf(exps);
  const float lse = kNatsPerBit * all.top + log_sum;
  const float grow = (1 + 2 * zeta * lse) / exps;
  // −log p = log(1 + others/exp(cross)) keeps its digits where p is near 1.
  float nats = log_sum - cross;
  if (telling && nats < kClose) nats = log1pf(all.others * expf(-cross));
  // (1 + 2ζ·lse)·p − 1 with p = 1 − others/exps: 1 − p does not cancel.
  return {grow * share, (2 * zeta * lse - grow * all.others) * share, nats + zeta * lse * lse};
}

/// The place of the target in the pack that begins at class `first`, if it is below the pack's
/// size.
__device__ inline unsigned place_in(int target, int first) {
  return static_cast<unsigned>(target) - static_cast<unsigned>(first);
}

}  // namespace norma::kernels
