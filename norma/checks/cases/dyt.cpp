#include "norma/ops/dyt.h"

#include <cmath>

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant, bool erf) {
  const bool has_gain = variant == "affine" || variant == "gain_only";
  const bool has_bias = variant == "affine" || variant == "bias_only";
  const bool has_shift = erf && variant != "plain";
  const double summed_size = std::sqrt(static_cast<double>(size.count()));
  Problem problem;
  problem.inputs = {
      {.name = "x", .shape = size, .role = Role::data},
      {.name = "a", .shape = {1}, .center = 0.5, .spread = 0.1, .summed_size = summed_size}};
  if (has_gain) {
    problem.inputs.push_back({.name = "gain", .shape = {size[1]}, .role = Role::gain, .center = 1});
  }
  if (has_bias) problem.inputs.push_back({.name = "bias", .shape = {size[1]}});
  if (has_shift) {
    problem.inputs.push_back(
        {.name = "s", .shape = {1}, .spread = 0.3, .summed_size = summed_size});
  }
  problem.forward = [=](std::span<const Var> in) {
    std::size_t at = 2;
    const Var gain = has_gain ? in[at++] : Var{};
    const Var bias = has_bias ? in[at++] : Var{};
    const Var s = has_shift ? in[at++] : Var{};
    return std::vector{erf ? derf(in[0], in[1], s, gain, bias) : dyt(in[0], in[1], gain, bias)};
  };
  return problem;
}

OpCheck check_of(const std::string& op) {
  const bool erf = op == "derf";
  return {.op = op,
          .kind = Kind::elementwise,
          .cancels = false,
          .variants = {"affine", "gain_only", "bias_only", "plain"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = row_sweep(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = [erf](const Shape& size, const std::string& v) { return make(size, v, erf); },
          .flops = {}};
}

}  // namespace

OpCheck dyt_check() { return check_of("dyt"); }
OpCheck derf_check() { return check_of("derf"); }

}  // namespace norma::checks
