#include "norma/ops/rope.h"

#include <memory>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/rope_tables.h"

namespace norma::checks {

namespace {

// A size is (B, T, heads, D).
Problem make(const Shape& size, const std::string& variant) {
  RopeSpec spec{.head = size[3]};
  if (variant == "half_split") spec.layout = RopeLayout::half_split;
  if (variant == "nvidia_defect") spec.layout = RopeLayout::nvidia_defect;
  if (variant == "base") spec.base = 500;
  const Index offset = variant == "offset" ? 5 : 0;
  const auto tables = std::make_shared<RopeTables>(spec, size[1] + offset);
  Problem problem;
  problem.inputs = {
      {.name = "x", .shape = {size[0], size[1], size[2] * size[3]}, .role = Role::data}};
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{rope(in[0], tables->fit(in[0]), offset)};
  };
  return problem;
}

}  // namespace

OpCheck rope_check() {
  return {
      .op = "rope",
      .kind = Kind::elementwise,
      .variants = {"interleaved", "half_split", "nvidia_defect", "offset", "base"},
      .conditions = {Condition::constant_rows, Condition::offset, Condition::huge, Condition::tiny},
      .sizes = {{1, 1, 1, 2},
                {2, 3, 1, 2},
                {1, 5, 2, 4},
                {2, 5, 3, 6},
                {1, 17, 2, 30},
                {1, 17, 2, 32},
                {3, 9, 2, 34},
                {2, 33, 4, 64},
                {1, 7, 5, 128},
                {1, 3, 1, 258},
                {2, 512, 2, 16}},
      .condition_sizes = {{1, 3, 2, 6}, {2, 20, 3, 34}},
      .bench_sizes = {{4, 512, 6, 64}, {4, 1024, 16, 64}},
      .gpu_bench_sizes = {{64, 1024, 12, 64}, {16, 1024, 16, 64}},
      .make = make,
      .flops = {}};
}

}  // namespace norma::checks
