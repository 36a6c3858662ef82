#include "norma/ops/cross_entropy.h"

#include <cmath>

#include "norma/base/error.h"
#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/tensor/plain.h"

namespace norma::checks {

namespace {

constexpr double kSoftcap = 5;  // small enough to bend unit-normal logits

/// The targets as one row of weights per token; ignored tokens are zero everywhere.
Var one_hot(Var ids, Index classes, DType dtype) {
  const Index tokens = ids.shape().count();
  const Var weights = ids.tape().output({tokens, classes}, dtype);
  fill(weights.value(), 0);
  for (Index r = 0; r < tokens; ++r) {
    const auto id = static_cast<Index>(value_at(ids.value(), 0, r));
    if (id >= 0) set_value(weights.value(), r, id, 1);
  }
  return weights;
}

Var composed(Var u, Var targets, Var scale, const CrossEntropySpec& spec) {
  using mini::affine;
  using mini::log_sum_exp;
  using mini::map;
  using mini::mix;
  using mini::mul;
  using mini::row_dot;
  using mini::total;
  const Index classes = u.shape().cols();
  const bool hard = targets.dtype() == DType::i32;
  const Var weights = hard ? one_hot(targets, classes, u.dtype()) : targets;
  // One entry per token: whether it counts.
  const Var counts = u.tape().output({u.shape().rows(), 1}, u.dtype());
  double tokens = 0;
  for (Index r = 0; r < u.shape().rows(); ++r) {
    const bool counted = !hard || value_at(targets.value(), 0, r) >= 0;
    set_value(counts.value(), r, 0, counted ? 1 : 0);
    tokens += counted ? 1 : 0;
  }
  Var z = u;
  if (scale) z = mul(z, affine(spec.scale_mult, scale));
  if (spec.softcap > 0) {
    z = map(z,
            {[](double v) { return kSoftcap * std::tanh(v / kSoftcap); },
             [](double v) { return std::pow(std::cosh(v / kSoftcap), -2); }});
  }
  const Var t = affine(1 - spec.smoothing, weights, spec.smoothing / static_cast<double>(classes));
  const Var lse = log_sum_exp(z);
  const Var gap = mix(-1, z, 1, lse);  // lse − z
  const Var each = mix(1, row_dot(gap, t), spec.z_loss, mul(lse, lse));
  return affine(1 / (spec.tokens > 0 ? spec.tokens : tokens), total(mul(each, counts)));
}

Problem make(const Shape& size, const std::string& variant) {
  if (variant == "preconditioned") {
    throw RequestError(
        "check: cross_entropy with precondition does not hand back the gradient of its loss, so "
        "there is nothing to compare it with.");
  }
  const bool all = variant == "all";
  const bool in_place = all || variant == "in_place" || variant == "in_place_plain";
  const bool scaled = all || variant == "scaled" || variant == "in_place";
  CrossEntropySpec spec{.scale_mult = 2};
  if (all || variant == "smoothed") spec.smoothing = 0.1;
  if (all || variant == "softcap") spec.softcap = kSoftcap;
  if (all || variant == "z_loss") spec.z_loss = 0.01;
  if (variant == "tokens") spec.tokens = 7;

  Problem problem;
  problem.inputs = {{.name = "logits", .shape = size, .role = Role::data}};
  if (variant == "soft") {
    problem.inputs.push_back(
        {.name = "targets", .shape = size, .center = 0.5, .spread = 0.1, .differentiable = false});
  } else {
    problem.inputs.push_back({.name = "targets",
                              .shape = {size[0]},
                              .role = Role::ids,
                              .limit = size[1],
                              .some_ignored = all || variant == "ignored"});
  }
  if (scaled) {
    problem.inputs.push_back(
        {.name = "scale", .shape = {size[1]}, .role = Role::gain, .center = 0.5, .spread = 0.1});
  }
  const auto scale_of = [=](std::span<const Var> in) { return scaled ? in[2] : Var{}; };
  problem.forward = [=](std::span<const Var> in) {
    const Var u = in_place ? mini::own(in[0]) : in[0];
    return std::vector{cross_entropy(u, in[1], scale_of(in), spec).loss};
  };
  problem.composed = [=](std::span<const Var> in) {
    return std::vector{composed(in[0], in[1], scale_of(in), spec)};
  };
  return problem;
}

/// From three classes on: the gradient of one is rounding, that of two may vanish by chance,
/// because probabilities and targets can meet (both are tested by hand).
std::vector<Shape> sizes() {
  std::vector<Shape> list;
  for (const Shape& size : row_sweep()) {
    if (size[1] > 2) list.push_back(size);
  }
  // On a GPU several blocks share such rows, the last has less to do. They are more than it fetches
  // ahead.
  list.push_back({10, 15368});
  list.push_back({3, 24008});  // and of such rows one block fetches the next ones ahead
  return list;
}

}  // namespace

OpCheck cross_entropy_check() {
  return {.op = "cross_entropy",
          .kind = Kind::loss,
          .variants = {"plain",
                       "scaled",
                       "smoothed",
                       "soft",
                       "softcap",
                       "z_loss",
                       "ignored",
                       "tokens",
                       "in_place",
                       "in_place_plain",
                       "all"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = sizes(),
          // One row could be right with certainty under huge logits: no loss and no gradient.
          .condition_sizes = {{3, 33}, {5, 257}, {40, 64}},
          .bench_sizes = {{2048, 65}, {2048, 8192}, {256, 50304}},
          .gpu_bench_sizes = {{16384, 50304}},
          .make = make,
          .flops = {},
          .gradients_in_forward = true};
}

}  // namespace norma::checks
