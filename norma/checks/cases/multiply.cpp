#include "norma/ops/multiply.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant) {
  Problem problem;
  problem.inputs = {{.name = "a", .shape = size, .role = Role::data}};
  if (variant == "square") {
    problem.forward = [](std::span<const Var> in) { return std::vector{multiply(in[0], in[0])}; };
    return problem;
  }
  problem.inputs.push_back({.name = "b", .shape = size, .role = Role::data});
  problem.forward = [](std::span<const Var> in) { return std::vector{multiply(in[0], in[1])}; };
  return problem;
}

}  // namespace

OpCheck multiply_check() {
  return {.op = "multiply",
          .kind = Kind::elementwise,
          .variants = {"plain", "square"},
          .conditions = {Condition::offset, Condition::huge, Condition::tiny},
          .sizes = {{1, 1}, {2, 3}, {3, 33}, {5, 257}, {40, 64}, {2, 4099}},
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 1024}, {4096, 2816}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
