#include "norma/ops/column_gain.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

constexpr Index kHead = 4;  // per_head uses rows of `width` heads of this width

Problem make(const Shape& size, const std::string& variant) {
  const bool heads = variant == "per_head";
  const Index cols = heads ? size[1] * kHead : size[1];
  ColumnGainSpec spec;
  spec.mult = variant == "plain" ? 1 : 2.5;
  if (heads) spec.groups = size[1];
  if (variant == "scalar") spec.groups = 1;
  const Index gains = spec.groups == 0 ? cols : spec.groups;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], cols}, .role = Role::data},
                    {.name = "gain", .shape = {gains}, .role = Role::gain, .center = 1}};
  problem.forward = [spec](std::span<const Var> in) {
    return std::vector{column_gain(in[0], in[1], spec)};
  };
  return problem;
}

}  // namespace

OpCheck column_gain_check() {
  return {.op = "column_gain",
          .kind = Kind::elementwise,
          .variants = {"plain", "mult", "per_head", "scalar"},
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
