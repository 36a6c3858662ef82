#include "norma/ops/patchify.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

/// Sizes are (B, channels, height, width); the patch is the variant's.
Problem make(const Shape& size, const std::string& variant) {
  const PatchifySpec spec = {.patch = variant == "pixel" ? 1 : 4};
  Problem problem;
  problem.inputs = {{.name = "images", .shape = size, .role = Role::data}};
  problem.forward = [spec](std::span<const Var> in) { return std::vector{patchify(in[0], spec)}; };
  return problem;
}

}  // namespace

OpCheck patchify_check() {
  return {.op = "patchify",
          .kind = Kind::moves,
          .variants = {"patch4", "pixel"},
          .conditions = {Condition::huge, Condition::tiny},
          .sizes = {{1, 1, 4, 4}, {2, 3, 8, 12}, {3, 1, 4, 20}, {1, 3, 32, 32}},
          .condition_sizes = {{2, 3, 8, 12}},
          .bench_sizes = {{64, 3, 32, 32}, {32, 3, 224, 224}},
          .gpu_bench_sizes = {{256, 3, 224, 224}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
