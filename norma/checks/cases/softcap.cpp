#include "norma/ops/softcap.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant) {
  const SoftcapSpec spec = {.cap = variant == "tight" ? 2.0 : 30.0};
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data}};
  problem.forward = [spec](std::span<const Var> in) { return std::vector{softcap(in[0], spec)}; };
  return problem;
}

}  // namespace

OpCheck softcap_check() {
  return {
      .op = "softcap",
      .kind = Kind::elementwise,
      .variants = {"wide", "tight"},
      .conditions = {Condition::constant_rows, Condition::offset, Condition::huge, Condition::tiny},
      .sizes = {{1, 1}, {2, 3}, {3, 33}, {17, 31}, {5, 257}, {40, 64}, {2, 4099}},
      .condition_sizes = row_condition_sizes(),
      .bench_sizes = {{2048, 1024}, {512, 50304}},
      .gpu_bench_sizes = {{16384, 50304}},
      .make = make,
      .flops = {}};
}

}  // namespace norma::checks
