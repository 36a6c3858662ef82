#include "norma/ops/dropout.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant, Var (*op)(Var, DropSpec)) {
  const DropSpec spec = {.rate = variant == "rare" ? 0.1 : 0.5, .key = {.seed = 5, .stream = 77}};
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data}};
  const bool stepped = variant == "stepped";
  if (stepped) {
    problem.inputs.push_back({.name = "step", .shape = {1}, .role = Role::ids, .limit = 1 << 30});
  }
  problem.forward = [=](std::span<const Var> in) {
    DropSpec of_step = spec;
    if (stepped) of_step.step = in[1].value();
    return std::vector{op(in[0], of_step)};
  };
  return problem;
}

}  // namespace

OpCheck dropout_check() {
  return {.op = "dropout",
          .kind = Kind::elementwise,
          .variants = {"half", "rare", "stepped"},
          .conditions = {Condition::huge, Condition::tiny},
          .sizes = {{1, 1}, {2, 3}, {17, 31}, {3, 63}, {3, 64}, {5, 65}, {2, 3, 257}, {2, 4099}},
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = [](const Shape& size,
                     const std::string& variant) { return make(size, variant, dropout); },
          .flops = {}};
}

OpCheck drop_path_check() {
  return {.op = "drop_path",
          .kind = Kind::elementwise,
          .variants = {"half", "rare", "stepped"},
          .conditions = {Condition::huge, Condition::tiny},
          .sizes = {{1, 1}, {8, 3}, {16, 1, 31}, {7, 5, 33}, {32, 3, 257}, {2, 3, 2, 17}},
          .condition_sizes = {{5, 3, 7}, {16, 2, 33}},
          .bench_sizes = {{32, 197, 384}},
          .gpu_bench_sizes = {{256, 197, 768}},
          .make = [](const Shape& size,
                     const std::string& variant) { return make(size, variant, drop_path); },
          .flops = {}};
}

}  // namespace norma::checks
