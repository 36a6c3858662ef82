#include "norma/ops/activation.h"

#include "norma/checks/cases/cases.h"
#include "norma/ops/multiply.h"

namespace norma::checks {

namespace {

/// Differences across the kink of relu at 0 say nothing about its slope, so its differentiable
/// inputs stay clear of it, one on each side; a third, of both signs, is compared by value.
Problem make_relu(const Shape& size, const std::string& variant) {
  Problem problem;
  if (variant == "positive") {
    problem.inputs = {{.name = "x", .shape = size, .role = Role::data, .center = 2, .spread = 0.2}};
    problem.forward = [](std::span<const Var> in) {
      return std::vector{activation(in[0], Activation::relu)};
    };
    return problem;
  }
  problem.inputs = {
      {.name = "positive", .shape = size, .role = Role::data, .center = 2, .spread = 0.2},
      {.name = "negative", .shape = size, .role = Role::data, .center = -2, .spread = 0.2},
      {.name = "mixed", .shape = size, .differentiable = false}};
  problem.forward = [](std::span<const Var> in) {
    const Var positive = activation(in[0], Activation::relu);
    const Var negative = activation(in[1], Activation::relu);
    return std::vector{multiply(positive, activation(in[2], Activation::relu)), negative};
  };
  return problem;
}

Problem make(const Shape& size, const std::string& variant, Activation kind) {
  if (kind == Activation::relu) return make_relu(size, variant);
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data, .spread = 2}};
  problem.forward = [kind](std::span<const Var> in) {
    return std::vector{activation(in[0], kind)};
  };
  return problem;
}

}  // namespace

OpCheck activation_check(Activation kind) {
  return {
      .op = std::string(name_of(kind)),
      .kind = Kind::elementwise,
      .variants = kind == Activation::relu ? std::vector<std::string>{"positive", "mixed"}
                                           : std::vector<std::string>{"plain"},
      .conditions = {Condition::constant_rows, Condition::offset, Condition::huge, Condition::tiny},
      .sizes = row_sweep(),
      .condition_sizes = row_condition_sizes(),
      .bench_sizes = {{2048, 1536}, {4096, 4096}},
      .gpu_bench_sizes = {{65536, 3072}, {16384, 4096}},
      .make = [kind](const Shape& size,
                     const std::string& variant) { return make(size, variant, kind); },
      .flops = {}};
}

}  // namespace norma::checks
