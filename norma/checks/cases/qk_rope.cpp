#include "norma/ops/qk_rope.h"

#include <memory>

#include "norma/checks/cases/cases.h"
#include "norma/checks/cases/mini_ops.h"
#include "norma/checks/cases/rope_tables.h"
#include "norma/ops/rms_norm.h"

namespace norma::checks {

namespace {

Var normed(Var x, const QkRopeSpec& spec, Index head) {
  if (spec.norm == HeadNorm::l2) return mini::unit(x, spec.l2_eps, head);
  if (spec.norm == HeadNorm::rms) return rms_norm(x, {}, {.eps = spec.rms_eps, .group = head});
  return x;
}

Var composed(Var x, Var gain, const RopeTable& table, const QkRopeSpec& spec) {
  const Index head = table.spec().head;
  const auto gained = [&](Var v) {
    return gain ? mini::mul(v, mini::affine(spec.gain_mult, gain, spec.gain_offset)) : v;
  };
  if (spec.after_rope) return gained(normed(rope(x, table, spec.offset), spec, head));
  return rope(gained(normed(x, spec, head)), table, spec.offset);
}

// A size is (B, T, heads, D).
Problem make(const Shape& size, const std::string& variant) {
  RopeSpec angles{.head = size[3]};
  if (variant == "half_split") angles.layout = RopeLayout::half_split;
  if (variant == "nvidia_defect") angles.layout = RopeLayout::nvidia_defect;
  QkRopeSpec spec{.gain_mult = 2};
  if (variant == "gain_only") spec.norm = HeadNorm::none;
  if (variant == "l2_first") spec.after_rope = false;
  if (variant.starts_with("rms")) {
    spec.norm = HeadNorm::rms;
    spec.after_rope = variant == "rms_last";
    spec.gain_per_column = false;
    spec.gain_offset = variant == "rms1" ? 1 : 0;
  }
  if (variant == "offset") spec.offset = 5;
  const Index positions = size[1] + spec.offset;
  const auto tables = std::make_shared<RopeTables>(angles, positions);
  const Index cols = size[2] * size[3];
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], size[1], cols}, .role = Role::data}};
  if (variant != "no_gain") {
    problem.inputs.push_back({.name = "gain",
                              .shape = {spec.gain_per_column ? cols : size[3]},
                              .role = Role::gain,
                              .center = 0.5,
                              .spread = 0.3});
  }
  problem.forward = [=](std::span<const Var> in) {
    return std::vector{qk_rope(in[0], in.size() > 1 ? in[1] : Var{}, tables->fit(in[0]), spec)};
  };
  problem.composed = [=](std::span<const Var> in) {
    return std::vector{composed(in[0], in.size() > 1 ? in[1] : Var{}, tables->fit(in[0]), spec)};
  };
  return problem;
}

}  // namespace

OpCheck qk_rope_check() {
  return {.op = "qk_rope",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"l2",
                       "l2_first",
                       "no_gain",
                       "gain_only",
                       "rms",
                       "rms1",
                       "rms_last",
                       "half_split",
                       "nvidia_defect",
                       "offset"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = {{1, 1, 1, 2},
                    {7, 3, 3, 48},
                    {2, 3, 1, 2},
                    {1, 5, 2, 4},
                    {2, 5, 3, 6},
                    {1, 17, 2, 30},
                    {1, 17, 2, 32},
                    {3, 9, 2, 34},
                    {2, 33, 4, 64},
                    {3, 9, 2, 64},
                    {1, 7, 5, 128},
                    {5, 3, 2, 128},
                    {2, 5, 1, 256},
                    {1, 3, 1, 258},
                    {2, 300, 2, 16}},
          .condition_sizes = {{1, 3, 2, 6}, {2, 20, 3, 34}},
          .bench_sizes = {{4, 512, 6, 64}, {4, 1024, 16, 64}},
          .gpu_bench_sizes = {{64, 1024, 12, 64}, {16, 1024, 16, 64}, {2, 8192, 16, 64}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
