#include "norma/ops/layer_norm.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

constexpr Index kHead = 16;  // per-head variants use rows of `width` heads of this width

Problem make(const Shape& size, const std::string& variant) {
  const bool heads = variant == "per_head" || variant == "head_gains";
  const bool has_gain = variant != "bias_only" && variant != "ln0";
  const bool has_bias = variant != "gain_only" && variant != "ln0";
  const Index cols = heads ? size[1] * kHead : size[1];
  LayerNormSpec spec;
  spec.group = heads ? kHead : 0;
  spec.gain_per_column = variant == "head_gains";
  spec.gain_offset = variant == "ln1" ? 1 : 0;
  const Index gains = variant == "per_head" ? kHead : cols;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], cols}, .role = Role::data}};
  if (has_gain) {
    problem.inputs.push_back({.name = "gain", .shape = {gains}, .role = Role::gain, .center = 1});
  }
  if (has_bias) problem.inputs.push_back({.name = "bias", .shape = {gains}, .spread = 0.3});
  problem.forward = [=](std::span<const Var> in) {
    const Var gain = has_gain ? in[1] : Var{};
    const Var bias = has_bias ? in[has_gain ? 2 : 1] : Var{};
    return std::vector{layer_norm(in[0], gain, bias, spec)};
  };
  return problem;
}

}  // namespace

OpCheck layer_norm_check() {
  return {.op = "layer_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"ln", "ln1", "gain_only", "bias_only", "ln0", "per_head", "head_gains"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = row_sweep(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
