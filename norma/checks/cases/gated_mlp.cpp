#include "norma/ops/gated_mlp.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/ops/linear.h"
#include "norma/ops/views.h"

namespace norma::checks {

namespace {

/// size = (rows, in, inner, out)
Problem make(const Shape& size, const std::string& variant) {
  const bool scaled = variant == "scaled" || variant == "made_again";
  const bool again = variant == "made_again";
  const bool added = variant == "onto";
  const GatedSpec spec = {.act = variant == "geglu" ? Activation::gelu_tanh : Activation::silu,
                          .u_mult = scaled ? 1.25 : 1,
                          .v_mult = scaled ? 0.75 : 1,
                          .gate_scale = scaled ? 2.0 : 1};
  const auto spread = [&](int i) { return 1 / std::sqrt(static_cast<double>(size[i])); };
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], size[1]}, .role = Role::data},
                    {.name = "up", .shape = {2 * size[2], size[1]}, .spread = spread(1)},
                    {.name = "down", .shape = {size[3], size[2]}, .spread = spread(2)}};
  if (scaled) {
    for (const char* name : {"s_u", "s_v"}) {
      problem.inputs.push_back(
          {.name = name, .shape = {size[2]}, .role = Role::gain, .center = 1, .spread = 0.3});
    }
  }
  if (added) {
    problem.inputs.push_back({.name = "onto", .shape = {size[0], size[3]}, .role = Role::data});
  }
  const auto onto = [=](std::span<const Var> in) { return added ? in[3] : Var{}; };
  const auto scale = [=](std::span<const Var> in, std::size_t i) { return scaled ? in[i] : Var{}; };
  problem.forward = [=](std::span<const Var> in) {
    in[0].tape().set_remaking(again ? Remaking::activations : Remaking::nothing);
    return std::vector{gated_mlp(in[0], in[1], in[2], scale(in, 3), scale(in, 4), spec, onto(in))};
  };
  const auto composed = [=](std::span<const Var> in, bool stored_in_bf16) {
    Var both = linear(in[0], in[1]);
    if (stored_in_bf16) both = mini::on_grid(both, DType::bf16);
    const auto [u, g] = split_columns(both, {size[2], size[2]});
    Var z = gated(u, g, scale(in, 3), scale(in, 4), spec);
    if (stored_in_bf16) z = mini::on_grid(z, DType::bf16);
    return std::vector{linear(z, in[2], {}, onto(in))};
  };
  problem.composed = [=](std::span<const Var> in) { return composed(in, false); };
  problem.stored_in_bf16 = [=](std::span<const Var> in) { return composed(in, true); };
  return problem;
}

}  // namespace

OpCheck gated_mlp_check() {
  return {.op = "gated_mlp",
          .kind = Kind::product,
          .roundings = 4,
          .variants = {"plain", "scaled", "geglu", "made_again", "onto"},
          .conditions = {Condition::constant_rows, Condition::tiny},
          .sizes = {{1, 5, 7, 3},
                    {17, 33, 40, 9},
                    {16, 32, 64, 48},
                    {300, 64, 272, 64},
                    {48, 80, 112, 16}},
          // Several tiles for each of a GPU's multiprocessors, and ragged ones.
          .gpu_sizes = {{4200, 40, 2200, 72}, {4200, 40, 1100, 136}},
          .condition_sizes = {{17, 33, 40, 9}, {16, 32, 64, 48}},
          .bench_sizes = {{768, 128, 352, 128}, {2048, 384, 1024, 384}},
          .gpu_bench_sizes = {{16384, 1024, 4096, 1024}},
          .make = make,
          .flops = [](const Shape& s) {
            return 2.0 * static_cast<double>(s[0] * s[2]) * static_cast<double>(2 * s[1] + s[3]);
          }};
}

}  // namespace norma::checks
