#include "norma/ops/head_loss.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/ops/linear.h"

namespace norma::checks {

namespace {

/// size = (rows, in, classes)
Problem make(const Shape& size, const std::string& variant) {
  const bool scaled = variant == "scaled" || variant == "fixed_scale" || variant == "all";
  HeadLossSpec spec{.loss = {.scale_mult = 2}, .rows = variant == "plain" ? 0 : 3};
  if (variant == "all") spec.loss = {.smoothing = 0.1, .z_loss = 0.01, .scale_mult = 2};
  Problem problem;
  problem.inputs = {
      {.name = "x",
       .shape = {size[0], size[1]},
       .role = Role::data,
       .differentiable = variant != "fixed_x"},
      {.name = "weight",
       .shape = {size[2], size[1]},
       .spread = 1 / std::sqrt(static_cast<double>(size[1])),
       .differentiable = variant != "fixed_weight"},
      {.name = "targets",
       .shape = {size[0]},
       .role = Role::ids,
       .limit = size[2],
       .some_ignored = variant == "all"},
  };
  if (scaled) {
    problem.inputs.push_back({.name = "scale",
                              .shape = {size[2]},
                              .role = Role::gain,
                              .center = 0.5,
                              .spread = 0.1,
                              .differentiable = variant != "fixed_scale"});
  }
  const auto scale_of = [=](std::span<const Var> in) { return scaled ? in[3] : Var{}; };
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{head_loss(in[0], in[1], in[2], scale_of(in), spec).loss};
  };
  const auto composed = [=](std::span<const Var> in, bool stored_in_bf16) {
    Var logits = linear(in[0], in[1]);
    if (stored_in_bf16) logits = mini::on_grid(logits, DType::bf16);
    return std::vector{cross_entropy(logits, in[2], scale_of(in), spec.loss).loss};
  };
  problem.composed = [=](std::span<const Var> in) { return composed(in, false); };
  problem.stored_in_bf16 = [=](std::span<const Var> in) { return composed(in, true); };
  problem.stored_or_not = true;  // odds are made of logits that are stored nowhere
  return problem;
}

}  // namespace

OpCheck head_loss_check() {
  return {
      .op = "head_loss",
      .kind = Kind::loss,
      .roundings = 2,
      .variants = {"plain", "some_rows", "fixed_x", "fixed_weight", "scaled", "fixed_scale", "all"},
      .conditions = {Condition::zero_gain, Condition::tiny},
      .sizes = {{1, 5, 7},
                {3, 33, 65},
                {4, 64, 31},
                {17, 8, 257},
                {40, 65, 64},
                {8, 64, 520},
                {300, 72, 520}},
      .condition_sizes = {{3, 33, 65}, {17, 8, 257}},
      .bench_sizes = {{768, 128, 65}, {4096, 192, 4096}},
      .gpu_bench_sizes = {{65536, 768, 50304}, {16384, 1024, 50304}},
      .make = make,
      .flops = [](const Shape& s) { return 6.0 * static_cast<double>(s[0] * s[1] * s[2]); },
      .backward_flops = 0,
      .gradients_in_forward = true};
}

}  // namespace norma::checks
