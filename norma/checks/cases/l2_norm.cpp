#include "norma/ops/l2_norm.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

constexpr Index kHead = 4;  // per-head variants use rows of `width` heads of this width

Problem make(const Shape& size, const std::string& variant) {
  const bool heads = variant != "l2" && variant != "row_gains";
  const bool has_gain = variant != "l2" && variant != "per_head";
  const Index cols = heads ? size[1] * kHead : size[1];
  L2NormSpec spec;
  spec.group = heads ? kHead : 0;
  spec.gain_per_column = variant == "head_gains";
  spec.gain_scale = has_gain ? 3 : 1;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], cols}, .role = Role::data}};
  if (has_gain) {
    const Index gains = variant == "shared_gain" ? kHead : cols;
    problem.inputs.push_back({.name = "gain", .shape = {gains}, .role = Role::gain, .center = 1});
  }
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{l2_norm(in[0], has_gain ? in[1] : Var{}, spec)};
  };
  return problem;
}

}  // namespace

OpCheck l2_norm_check() {
  return {.op = "l2_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"l2", "row_gains", "per_head", "shared_gain", "head_gains"},
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
