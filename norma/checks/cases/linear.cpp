#include "norma/ops/linear.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/ops/residual.h"

namespace norma::checks {

namespace {

/// size = (rows, in, out)
Problem make(const Shape& size, const std::string& variant) {
  const double spread = 1 / std::sqrt(static_cast<double>(size[1]));
  Problem problem;
  problem.inputs = {
      {.name = "x", .shape = {size[0], size[1]}, .role = Role::data},
      {.name = "weight", .shape = {size[2], size[1]}, .spread = spread},
  };
  if (variant == "plain") {
    problem.forward = [](std::span<const Var> in) { return std::vector{linear(in[0], in[1])}; };
    return problem;
  }
  if (variant == "onto") {
    problem.inputs.push_back({.name = "onto", .shape = {size[0], size[2]}, .role = Role::data});
    problem.forward = [](std::span<const Var> in) {
      return std::vector{linear(in[0], in[1], {}, in[2])};
    };
    problem.composed = [](std::span<const Var> in) {
      return std::vector{residual_add(in[2], linear(in[0], in[1]))};
    };
    return problem;
  }
  problem.inputs.push_back({.name = "bias", .shape = {size[2]}});
  problem.forward = [](std::span<const Var> in) {
    return std::vector{linear(in[0], in[1], in[2])};
  };
  return problem;
}

std::vector<Shape> sizes() {
  std::vector<Shape> list;
  for (const Index rows : {1, 2, 17, 40}) {
    for (const Index in : {1, 3, 33, 257}) {
      for (const Index out : {1, 5, 64, 255}) list.push_back({rows, in, out});
    }
  }
  list.push_back({513, 1025, 31});
  return list;
}

}  // namespace

OpCheck linear_check() {
  return {.op = "linear",
          .kind = Kind::product,
          .variants = {"plain", "bias", "onto"},
          .conditions = {Condition::constant_rows, Condition::huge, Condition::tiny},
          .sizes = sizes(),
          .condition_sizes = {{3, 33, 5}, {17, 64, 31}},
          .bench_sizes = {{768, 128, 512}, {4096, 192, 768}, {2048, 384, 1536}},
          .gpu_bench_sizes = {{65536, 768, 2304},  // GPT-2 124M
                              {65536, 768, 768},
                              {65536, 768, 3072},
                              {65536, 3072, 768},
                              {16384, 768, 50304},
                              {16384, 1024, 3072},  // nGPT 0.5B
                              {16384, 1024, 1024},
                              {16384, 1024, 8192},
                              {16384, 4096, 1024},
                              {16384, 1024, 50304}},
          .make = make,
          .flops = [](const Shape& s) { return 2.0 * static_cast<double>(s[0] * s[1] * s[2]); }};
}

}  // namespace norma::checks
