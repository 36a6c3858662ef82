#include "norma/ops/add_norm.h"

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/ops/layer_norm.h"
#include "norma/ops/residual.h"
#include "norma/ops/rms_norm.h"

namespace norma::checks {

namespace {

AddNormSpec spec_of(const std::string& variant) {
  const bool layer = variant.rfind("layer", 0) == 0;
  AddNormSpec spec;
  spec.norm = layer ? AddNormKind::layer : AddNormKind::rms;
  // The sum is then exact in f32, and everybody rounds it to the same bf16. With 1.7 it often lies
  // within a rounding error of the middle between two of them.
  spec.scale = variant == "rms" ? 1 : 1.75;
  spec.gain_offset = variant == "rms1" ? 1 : 0;
  spec.eps = layer ? 1e-5 : 1e-6;
  return spec;
}

/// Inputs of a problem: x, b, and the vectors it has.
struct Inputs {
  Inputs(const Shape& size, bool has_branch, bool has_gain, bool has_bias) {
    specs = {{.name = "x", .shape = size, .role = Role::data},
             {.name = "b", .shape = size, .role = Role::data}};
    const InputSpec gain_spec{.name = "gain", .shape = {size[1]}, .role = Role::gain, .center = 1};
    branch = add(has_branch, gain_spec, "branch_gain");
    gain = add(has_gain, gain_spec, "gain");
    bias = add(has_bias, {.name = "bias", .shape = {size[1]}}, "bias");
  }
  std::size_t add(bool there, InputSpec spec, const char* name) {
    if (!there) return 0;
    spec.name = name;
    specs.push_back(spec);
    return specs.size() - 1;
  }

  std::vector<InputSpec> specs;
  std::size_t branch = 0;  // places in the list; 0: absent
  std::size_t gain = 0;
  std::size_t bias = 0;
};

Var at(std::span<const Var> in, std::size_t place) { return place == 0 ? Var{} : in[place]; }

/// Either form of the addition with the norm behind it.
Problem make_both(const Shape& size, const std::string& variant, bool branch) {
  const bool layer = variant.rfind("layer", 0) == 0;
  const bool has_gain = variant != "rms0" && variant != "layer0" && variant != "layer_bias";
  const bool has_bias = variant == "layer" || variant == "layer_bias" || variant == "rms_bias";
  const bool sum_used = variant.find("unused") == std::string::npos;
  const AddNormSpec spec = spec_of(variant);
  const RmsNormSpec branch_spec{.eps = 1e-5, .gain_offset = spec.gain_offset};
  const Inputs inputs(size, branch && has_gain, has_gain, has_bias);
  Problem problem;
  problem.inputs = inputs.specs;
  problem.forward = [=](std::span<const Var> in) {
    const Var gain = at(in, inputs.gain);
    const Var bias = at(in, inputs.bias);
    const BranchNorm norm{.gain = at(in, inputs.branch),
                          .gain_offset = branch_spec.gain_offset,
                          .eps = branch_spec.eps};
    const AddNormResult result = branch ? norm_add_norm(in[0], in[1], norm, gain, bias, spec)
                                        : add_norm(in[0], in[1], gain, bias, spec);
    return sum_used ? std::vector{result.sum, result.normed} : std::vector{result.normed};
  };
  const auto composed = [=](std::span<const Var> in, bool stored_in_bf16) {
    const Var b = branch ? rms_norm(in[1], at(in, inputs.branch), branch_spec) : in[1];
    Var sum = residual_add(in[0], b, {.scale = spec.scale});
    if (stored_in_bf16) sum = mini::on_grid(sum, DType::bf16);
    const Var gain = at(in, inputs.gain);
    const Var bias = at(in, inputs.bias);
    Var normed;
    if (layer) {
      normed = layer_norm(sum, gain, bias, {.eps = spec.eps});
    } else {
      normed = rms_norm(sum, gain, {.eps = spec.eps, .gain_offset = spec.gain_offset});
      if (has_bias) normed = mini::mix(1, normed, 1, bias);
    }
    return sum_used ? std::vector{sum, normed} : std::vector{normed};
  };
  problem.composed = [=](std::span<const Var> in) { return composed(in, false); };
  // The norm is that of the sum as it is stored: backward has no other.
  problem.stored_in_bf16 = [=](std::span<const Var> in) { return composed(in, true); };
  return problem;
}

Problem make_norm_add(const Shape& size, const std::string& variant) {
  const double offset = variant == "rms1" ? 1 : 0;
  const Inputs inputs(size, variant != "rms0", false, false);
  Problem problem;
  problem.inputs = inputs.specs;
  problem.forward = [=](std::span<const Var> in) {
    const BranchNorm norm{.gain = at(in, inputs.branch), .gain_offset = offset};
    return std::vector{norm_add(in[0], in[1], norm)};
  };
  problem.composed = [=](std::span<const Var> in) {
    const Var b = rms_norm(in[1], at(in, inputs.branch), {.gain_offset = offset});
    return std::vector{residual_add(in[0], b)};
  };
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
          .make = [](const Shape& size,
                     const std::string& variant) { return make_both(size, variant, false); },
          .flops = {}};
}

// No widths 1 and 2: norms leave only signs of so few columns, and gradients that cancel come out
// of one norm and go into the other. bf16: the sum may be rounded to the neighbour of what the
// truth was rounded to, two roundings' worth, and its norm is rounded once more. The gradient of
// the branch's gain sums over rows of the sum's gradient, which was rounded: where two or three
// rows cancel, five roundings' worth.
OpCheck norm_add_norm_check() {
  OpCheck check = add_norm_check();
  check.op = "norm_add_norm";
  check.roundings = 5;
  check.variants = {"rms", "rms1", "rms0", "rms_unused", "layer", "layer_unused"};
  std::erase_if(check.sizes, [](const Shape& size) { return size[1] <= 2; });
  check.make = [](const Shape& size, const std::string& variant) {
    return make_both(size, variant, true);
  };
  return check;
}

OpCheck norm_add_check() {
  OpCheck check = add_norm_check();
  check.op = "norm_add";
  check.variants = {"rms", "rms1", "rms0"};
  check.make = make_norm_add;
  return check;
}

}  // namespace norma::checks
