#include "norma/ops/embedding.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

/// Sizes are (B, T, C, V). Variants: plain, scaled, positions, and offset: both, from position 2.
Problem make(const Shape& size, const std::string& variant) {
  const bool positions = variant == "positions" || variant == "offset";
  const Index first = variant == "offset" ? 2 : 0;
  const EmbeddingSpec spec = {.scale = variant == "plain" || variant == "positions" ? 1 : 2.5,
                              .first_position = first};
  Problem problem;
  problem.inputs = {
      {.name = "ids", .shape = {size[0], size[1]}, .role = Role::ids, .limit = size[3]},
      {.name = "table", .shape = {size[3], size[2]}}};
  if (positions) {
    // Longer than needed, so that rows nobody uses are seen to get zero.
    problem.inputs.push_back({.name = "positions", .shape = {first + size[1] + 1, size[2]}});
  }
  problem.forward = [spec, positions](std::span<const Var> in) {
    return std::vector{embedding(in[0], in[1], positions ? in[2] : Var{}, spec)};
  };
  return problem;
}

}  // namespace

OpCheck embedding_check() {
  return {.op = "embedding",
          .kind = Kind::elementwise,
          .variants = {"plain", "scaled", "positions", "offset"},
          .conditions = {},
          .sizes = {{1, 1, 1, 1},
                    {2, 3, 5, 7},
                    {3, 17, 33, 11},
                    {2, 64, 16, 3},
                    {4, 33, 64, 257},
                    {1, 5, 257, 100},
                    {2, 600, 8, 300},       // ids of two digits, tokens of several tiles of a sort
                    {9, 1900, 3, 66'000}},  // three digits, and more tiles than lanes
          .condition_sizes = {},
          .bench_sizes = {{8, 1024, 384, 50304}, {32, 1024, 768, 50304}},
          .gpu_bench_sizes = {{64, 1024, 768, 50304}, {16, 1024, 1024, 50304}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
