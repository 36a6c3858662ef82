#include "norma/ops/geodesic.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"

namespace norma::checks {

namespace {

// alpha = |kMult·raw| with raw = ±(1 ± 0.2): between 0.05 and 0.6, away from the kink at 0.
constexpr double kMult = 0.3;
constexpr double kSpread = 0.2;

Var composed(const GeodesicSpec& spec, Var h, Var b, Var raw) {
  using mini::affine;
  using mini::div;
  using mini::Function;
  using mini::map;
  using mini::mix;
  using mini::mul;
  using mini::row_dot;
  using mini::unit;
  const Function absolute{[](double v) { return std::abs(v); },
                          [](double v) { return v < 0 ? -1.0 : 1.0; }};
  const Function root{[](double v) { return std::sqrt(v); },
                      [](double v) { return 0.5 / std::sqrt(v); }};
  const Function sine{[](double v) { return std::sin(v); }, [](double v) { return std::cos(v); }};
  const Function twice_arctan{[](double v) { return 2 * std::atan(v); },
                              [](double v) { return 2 / (1 + v * v); }};
  const Var a = unit(h, spec.eps);
  const Var d = unit(b, spec.eps);
  const Var alpha = map(affine(spec.alpha_mult, raw), absolute);
  if (spec.rule == GeodesicRule::lerp) {
    return unit(mix(1, a, 1, mul(mix(1, d, -1, a), alpha)), spec.eps);
  }
  if (spec.rule == GeodesicRule::riem) {
    const Var tangent = mix(1, d, -1, mul(a, row_dot(a, d)));
    return unit(mix(1, a, 1, mul(tangent, alpha)), spec.eps);
  }
  const Var apart = mix(1, a, -1, d);
  const Var joint = mix(1, a, 1, d);
  const Var theta =
      map(div(map(row_dot(apart, apart), root), map(row_dot(joint, joint), root)), twice_arctan);
  const Var everywhere = mix(0, h, 1, theta);  // theta in every column
  const Var q = map(mul(everywhere, alpha), sine);
  const Var p = map(mix(1, everywhere, -1, mul(everywhere, alpha)), sine);
  return unit(div(mix(1, mul(a, p), 1, mul(d, q)), map(theta, sine)), spec.eps);
}

Problem make(GeodesicRule rule, const Shape& size, const std::string& variant) {
  // eps as large as |h|², so that rows of different length stay shorter than 1, each by its own.
  const bool shortened = variant == "shortened";
  GeodesicSpec spec{.rule = rule, .alpha_mult = kMult};
  if (shortened) spec.eps = static_cast<double>(size[1]);
  const Index alphas = variant == "scalar" ? 1 : size[1];
  Problem problem;
  problem.inputs = {
      {.name = "h", .shape = size, .role = Role::data},
      {.name = "b", .shape = size, .role = Role::data, .spread = shortened ? 2.0 : 1.0},
      {.name = "alpha",
       .shape = {alphas},
       .center = variant == "negative" ? -1.0 : 1.0,
       .spread = kSpread,
       .differentiable = variant != "fixed"}};
  problem.forward = [spec](std::span<const Var> in) {
    return std::vector{geodesic(in[0], in[1], in[2], spec)};
  };
  problem.composed = [spec](std::span<const Var> in) {
    return std::vector{composed(spec, in[0], in[1], in[2])};
  };
  return problem;
}

/// Without width 1, where nothing but rounding is left of alpha's gradient (tested by hand).
std::vector<Shape> sizes() {
  std::vector<Shape> list;
  for (const Shape& size : row_sweep()) {
    if (size[1] > 1) list.push_back(size);
  }
  return list;
}

OpCheck check(std::string op, GeodesicRule rule) {
  return {.op = std::move(op),
          .kind = Kind::geodesic,
          .cancels = true,
          .variants = {"vector", "scalar", "negative", "fixed", "shortened"},
          .conditions = {Condition::offset, Condition::huge, Condition::tiny},
          .sizes = sizes(),
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}, {4096, 1024}},
          .gpu_bench_sizes = row_gpu_sizes(),
          .make = [rule](const Shape& size,
                         const std::string& variant) { return make(rule, size, variant); },
          .flops = {}};
}

}  // namespace

OpCheck lerp_check() { return check("lerp", GeodesicRule::lerp); }
OpCheck slerp_check() { return check("slerp", GeodesicRule::slerp); }
OpCheck riem_check() { return check("riem", GeodesicRule::riem); }

}  // namespace norma::checks
