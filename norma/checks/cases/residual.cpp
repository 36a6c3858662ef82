#include "norma/ops/residual.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

std::vector<Shape> sizes() {
  return {{1, 1}, {2, 3}, {3, 33}, {17, 31}, {5, 257}, {2, 768}, {40, 64}, {3, 1025}};
}

std::vector<InputSpec> sides(const Shape& size) {
  return {{.name = "x", .shape = size, .role = Role::data},
          {.name = "b", .shape = size, .role = Role::data}};
}

Problem make_add(const Shape& size, const std::string& variant) {
  Problem problem;
  problem.inputs = sides(size);
  if (variant == "same") problem.inputs.pop_back();
  const ResidualSpec spec = {.scale = variant == "scaled" ? 1.7 : 1};
  problem.forward = [spec](std::span<const Var> in) {
    return std::vector{residual_add(in.front(), in.back(), spec)};
  };
  return problem;
}

Problem make_rscale(const Shape& size, const std::string&) {
  Problem problem;
  problem.inputs = sides(size);
  problem.inputs.push_back({.name = "lambda", .shape = {size[1]}, .role = Role::gain, .center = 1});
  problem.forward = [](std::span<const Var> in) {
    return std::vector{residual_rscale(in[0], in[1], in[2])};
  };
  return problem;
}

/// alpha_raw keeps away from 0, where |·| has a kink and differences say nothing.
Problem make_alerp(const Shape& size, const std::string& variant) {
  Problem problem;
  problem.inputs = sides(size);
  problem.inputs.push_back({.name = "alpha_raw",
                            .shape = {variant == "scalar" ? 1 : size[1]},
                            .center = variant == "negative" ? -0.7 : 0.3,
                            .spread = 0.03});
  const AlerpSpec spec = {.mult = variant == "plain" ? 1 : 1.1};
  problem.forward = [spec](std::span<const Var> in) {
    return std::vector{alerp(in[0], in[1], in[2], spec)};
  };
  return problem;
}

OpCheck check_of(const std::string& op,
                 std::vector<std::string> variants,
                 std::vector<Condition> conditions,
                 Problem (*make)(const Shape&, const std::string&)) {
  return {.op = op,
          .kind = Kind::elementwise,
          .variants = std::move(variants),
          .conditions = std::move(conditions),
          .sizes = sizes(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = make,
          .flops = {}};
}

}  // namespace

OpCheck residual_add_check() {
  return check_of("residual_add",
                  {"plain", "scaled", "same"},
                  {Condition::offset, Condition::huge, Condition::tiny},
                  make_add);
}

OpCheck residual_rscale_check() {
  return check_of("residual_rscale",
                  {"plain"},
                  {Condition::zero_gain, Condition::offset, Condition::huge, Condition::tiny},
                  make_rscale);
}

OpCheck alerp_check() {
  return check_of("alerp",
                  {"plain", "mult", "negative", "scalar"},
                  {Condition::offset, Condition::huge, Condition::tiny},
                  make_alerp);
}

}  // namespace norma::checks
