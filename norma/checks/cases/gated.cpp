#include "norma/ops/gated.h"

#include "norma/checks/cases/cases.h"
#include "norma/ops/activation.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/multiply.h"
#include "norma/ops/views.h"

namespace norma::checks {

namespace {

struct Parts {
  Var u, g, s_u, s_v;
};

/// u and g are column halves of one input, as a fused linear map gives them, except in the plain
/// variant: what it takes to bring their gradients together does not count as theirs.
Parts parts_of(std::span<const Var> in, bool apart, bool has_s_u, bool has_s_v) {
  if (apart) return {in[0], in[1], {}, {}};
  const Index half = in[0].shape().cols() / 2;
  const auto [u, g] = split_columns(in[0], {half, half});
  return {u, g, has_s_u ? in[1] : Var{}, has_s_v ? in[has_s_u ? 2 : 1] : Var{}};
}

Problem make(const Shape& size, const std::string& variant, Activation act) {
  const bool has_s_u = variant == "scaled" || variant == "s_u";
  const bool has_s_v = variant == "scaled" || variant == "s_v";
  const GatedSpec spec = {.act = act,
                          .u_mult = has_s_u ? 1.3 : 1,
                          .v_mult = has_s_v ? 0.8 : 1,
                          .gate_scale = variant == "plain" ? 1.0 : 1.9};
  Problem problem;
  const bool apart = variant == "plain";
  if (apart) {
    problem.inputs = {{.name = "u", .shape = size, .role = Role::data},
                      {.name = "g", .shape = size, .role = Role::data}};
  } else {
    problem.inputs = {{.name = "u | g", .shape = size.with_last(2 * size[1]), .role = Role::data}};
  }
  if (has_s_u) {
    problem.inputs.push_back(
        {.name = "s_u", .shape = {size[1]}, .role = Role::gain, .center = 1, .spread = 0.3});
  }
  if (has_s_v) {
    problem.inputs.push_back(
        {.name = "s_v", .shape = {size[1]}, .role = Role::gain, .center = 1, .spread = 0.3});
  }
  problem.forward = [=](std::span<const Var> in) {
    const Parts p = parts_of(in, apart, has_s_u, has_s_v);
    return std::vector{gated(p.u, p.g, p.s_u, p.s_v, spec)};
  };
  problem.composed = [=](std::span<const Var> in) {
    const Parts p = parts_of(in, apart, has_s_u, has_s_v);
    const Var one = in[0].tape().output({1}, in[0].dtype());
    set_value(one.value(), 0, 0, 1);
    const Var up = p.s_u ? column_gain(p.u, p.s_u, {.mult = spec.u_mult}) : p.u;
    const Var gate = p.s_v ? column_gain(p.g, p.s_v, {.mult = spec.v_mult}) : p.g;
    const Var scaled_gate = scalar_gain(gate, one, spec.gate_scale);
    return std::vector{multiply(up, activation(scaled_gate, act))};
  };
  return problem;
}

OpCheck gated_check(const std::string& op, Activation act) {
  return {.op = op,
          .kind = Kind::elementwise,
          .variants = {"plain", "scaled", "s_u", "s_v"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          // Not (1, 1): one lone ds_v is ill-conditioned where the slope of the gate crosses zero.
          .sizes = {{1, 2},
                    {2, 3},
                    {3, 33},
                    {17, 31},
                    {5, 255},
                    {2, 256},
                    {3, 257},
                    {1, 513},
                    {40, 64},
                    {2, 4099}},
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 1024}, {4096, 2816}},
          .gpu_bench_sizes = {{16384, 4096}},
          .make = [act](const Shape& size,
                        const std::string& variant) { return make(size, variant, act); },
          .flops = {}};
}

}  // namespace

OpCheck swiglu_check() { return gated_check("swiglu", Activation::silu); }
OpCheck geglu_check() { return gated_check("geglu", Activation::gelu_tanh); }

}  // namespace norma::checks
