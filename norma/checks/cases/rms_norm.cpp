#include "norma/ops/rms_norm.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

constexpr Index kHead = 4;  // per-head variants use rows of `width` heads of this width

Problem make(const Shape& size, const std::string& variant) {
  const bool heads = variant == "per_head" || variant == "head_gains";
  const Index cols = heads ? size[1] * kHead : size[1];
  RmsNormSpec spec;
  spec.group = heads ? kHead : 0;
  spec.gain_per_column = variant == "head_gains";
  spec.gain_offset = variant == "rms1" ? 1 : 0;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], cols}, .role = Role::data}};
  if (variant == "rms0") {
    problem.forward = [spec](std::span<const Var> in) {
      return std::vector{rms_norm(in[0], {}, spec)};
    };
    return problem;
  }
  const Index gains = variant == "per_head" ? kHead : cols;
  problem.inputs.push_back({.name = "gain", .shape = {gains}, .role = Role::gain, .center = 1});
  problem.forward = [spec](std::span<const Var> in) {
    return std::vector{rms_norm(in[0], in[1], spec)};
  };
  return problem;
}

}  // namespace

OpCheck rms_norm_check() {
  return {.op = "rms_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"rms", "rms1", "rms0", "per_head", "head_gains"},
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
