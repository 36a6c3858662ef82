#include "norma/ops/add_norm.h"

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/residual.h"
#include "norma/ops/rms_norm.h"

namespace norma::checks {

namespace {

Problem make(const Shape& size, const std::string& variant) {
  const bool layer = variant.rfind("layer", 0) == 0;
  const bool has_gain = variant != "rms0" && variant != "layer0" && variant != "layer_bias";
  const bool has_bias = variant == "layer" || variant == "layer_bias" || variant == "rms_bias";
  const bool sum_used = variant.find("unused") == std::string::npos;
  AddNormSpec spec;
  spec.norm = layer ? AddNormKind::layer : AddNormKind::rms;
  // The sum is then exact in f32, and everybody rounds it to the same bf16. With 1.7 it often lies
  // within a rounding error of the middle between two of them.
  spec.scale = variant == "rms" ? 1 : 1.75;
  spec.gain_offset = variant == "rms1" ? 1 : 0;
  spec.eps = layer ? 1e-5 : 1e-6;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data},
                    {.name = "b", .shape = size, .role = Role::data}};
  if (has_gain) {
    problem.inputs.push_back({.name = "gain", .shape = {size[1]}, .role = Role::gain, .center = 1});
  }
  if (has_bias) problem.inputs.push_back({.name = "bias", .shape = {size[1]}});
  const auto gain_of = [=](std::span<const Var> in) { return has_gain ? in[2] : Var{}; };
  const auto bias_of = [=](std::span<const Var> in) {
    return has_bias ? in[has_gain ? 3 : 2] : Var{};
  };
  problem.forward = [=](std::span<const Var> in) {
    const AddNormResult result = add_norm(in[0], in[1], gain_of(in), bias_of(in), spec);
    return sum_used ? std::vector{result.sum, result.normed} : std::vector{result.normed};
  };
  const auto composed = [=](std::span<const Var> in, bool stored_in_bf16) {
    Var sum = residual_add(in[0], in[1], {.scale = spec.scale});
    if (stored_in_bf16) sum = mini::on_grid(sum, DType::bf16);
    Var normed;
    if (layer) {
      normed = layer_norm(sum, gain_of(in), bias_of(in), {.eps = spec.eps});
    } else {
      normed = rms_norm(sum, gain_of(in), {.eps = spec.eps, .gain_offset = spec.gain_offset});
      if (has_bias) normed = mini::mix(1, normed, 1, bias_of(in));
    }
    return sum_used ? std::vector{sum, normed} : std::vector{normed};
  };
  problem.composed = [=](std::span<const Var> in) { return composed(in, false); };
  // The norm is that of the sum as it is stored: backward has no other.
  problem.stored_in_bf16 = [=](std::span<const Var> in) { return composed(in, true); };
  return problem;
}

}  // namespace

// No offset: where the mean is 1e4 times the spread, rounding the sum itself to f32 moves its layer
// norm by 5e-4, whoever computes it.
OpCheck add_norm_check() {
  return {.op = "add_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"rms",
                       "rms1",
                       "rms0",
                       "rms_bias",
                       "rms_unused",
                       "layer",
                       "layer_bias",
                       "layer0",
                       "layer_unused"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::huge,
                         Condition::tiny},
          .sizes = row_sweep(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
