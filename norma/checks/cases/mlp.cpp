#include "norma/ops/mlp.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/ops/activation.h"
#include "norma/ops/linear.h"

namespace norma::checks {

namespace {

/// size = (rows, in, inner, out)
Problem make(const Shape& size, const std::string& variant) {
  const Activation act = variant == "relu2"      ? Activation::relu2
                         : variant == "gelu_erf" ? Activation::gelu_erf
                                                 : Activation::gelu_tanh;
  const auto spread = [&](int i) { return 1 / std::sqrt(static_cast<double>(size[i])); };
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], size[1]}, .role = Role::data},
                    {.name = "up", .shape = {size[2], size[1]}, .spread = spread(1)},
                    {.name = "down", .shape = {size[3], size[2]}, .spread = spread(2)}};
  const bool again = variant == "made_again" || variant == "gelu_erf";
  const bool added = variant == "onto";
  if (added) {
    problem.inputs.push_back({.name = "onto", .shape = {size[0], size[3]}, .role = Role::data});
  }
  const auto onto = [=](std::span<const Var> in) { return added ? in[3] : Var{}; };
  problem.forward = [=](std::span<const Var> in) {
    in[0].tape().set_remaking(again ? Remaking::activations : Remaking::nothing);
    return std::vector{mlp(in[0], in[1], in[2], act, onto(in))};
  };
  const auto composed = [=](std::span<const Var> in, bool stored_in_bf16) {
    Var h = linear(in[0], in[1]);
    if (stored_in_bf16) h = mini::on_grid(h, DType::bf16);
    Var z = activation(h, act);
    if (stored_in_bf16) z = mini::on_grid(z, DType::bf16);
    return std::vector{linear(z, in[2], {}, onto(in))};
  };
  problem.composed = [=](std::span<const Var> in) { return composed(in, false); };
  problem.stored_in_bf16 = [=](std::span<const Var> in) { return composed(in, true); };
  return problem;
}

}  // namespace

OpCheck mlp_check() {
  return {.op = "mlp",
          .kind = Kind::product,
          .roundings = 4,
          .variants = {"plain", "relu2", "gelu_erf", "made_again", "onto"},
          .conditions = {Condition::constant_rows, Condition::tiny},
          .sizes = {{1, 5, 7, 3},
                    {17, 33, 40, 9},
                    {16, 32, 64, 48},
                    {128, 64, 256, 64},
                    {48, 80, 112, 16}},
          // Several tiles for each of a GPU's multiprocessors, and ragged ones.
          .gpu_sizes = {{4200, 72, 2200, 40}, {4200, 40, 2200, 200}},
          .condition_sizes = {{17, 33, 40, 9}, {16, 32, 64, 48}},
          .bench_sizes = {{768, 128, 512, 128}, {2048, 384, 1536, 384}},
          .gpu_bench_sizes = {{65536, 768, 3072, 768}, {16384, 1280, 5120, 1280}},
          .make = make,
          .flops = [](const Shape& s) {
            return 2.0 * static_cast<double>(s[0] * s[2]) * static_cast<double>(s[1] + s[3]);
          }};
}

}  // namespace norma::checks
