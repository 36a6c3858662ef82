#include "norma/ops/weight_norm.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant) {
  const bool columns = variant == "columns" || variant == "unit_columns";
  const bool has_g = variant == "rows" || variant == "columns";
  const WeightNormSpec spec{columns ? WeightAxis::columns : WeightAxis::rows};
  Problem problem;
  problem.inputs = {{.name = "v", .shape = size, .role = Role::data, .storage = Storage::weight}};
  if (has_g) {
    problem.inputs.push_back(
        {.name = "g", .shape = {columns ? size[1] : size[0]}, .role = Role::gain, .center = 1});
  }
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{weight_norm(in[0], has_g ? in[1] : Var{}, spec)};
  };
  return problem;
}

}  // namespace

OpCheck weight_norm_check() {
  return {.op = "weight_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"rows", "unit_rows", "columns", "unit_columns"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = row_sweep(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{1536, 384}, {4096, 1024}},
          .gpu_bench_sizes = {{50304, 768}, {8192, 1024}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
