#include "norma/ops/scale_norm.h"

#include <cmath>

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant) {
  const bool has_gain = variant == "scale";
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data}};
  if (has_gain) {
    problem.inputs.push_back({.name = "g",
                              .shape = {1},
                              .role = Role::gain,
                              .center = 1,
                              .summed_size = std::sqrt(static_cast<double>(size.count()))});
  }
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{scale_norm(in[0], has_gain ? in[1] : Var{})};
  };
  return problem;
}

}  // namespace

OpCheck scale_norm_check() {
  return {.op = "scale_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"scale", "no_gain"},
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
