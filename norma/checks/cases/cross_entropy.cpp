#include "norma/ops/cross_entropy.h"

#include <cmath>

#include "norma/checks/cases/cases.h"
#include "norma/ops/linear.h"

namespace norma::checks {

namespace {

constexpr Index kInner = 6;  // width of the hidden vector in the in-place variants

/// size = (tokens, classes)
Problem make(const Shape& size, const std::string& variant) {
  const bool everything = variant == "everything" || variant == "in_place";
  const bool in_place = variant == "in_place" || variant == "in_place_plain";
  CrossEntropySpec spec;
  spec.smoothing = variant == "smoothed" || everything ? 0.1 : 0;
  spec.softcap = variant == "softcap" || everything ? 3 : 0;
  spec.z_loss = variant == "z_loss" || everything ? 0.05 : 0;
  spec.scale_mult = everything ? 1.5 : 1;
  spec.tokens = everything ? 7 : 0;

  Problem problem;
  if (in_place) {
    problem.inputs = {{.name = "hidden", .shape = {size[0], kInner}, .role = Role::data},
                      {.name = "table", .shape = {size[1], kInner}, .spread = 0.4}};
  } else {
    problem.inputs = {{.name = "logits", .shape = size, .role = Role::data}};
  }
  const std::size_t targets = problem.inputs.size();
  if (variant == "soft") {
    problem.inputs.push_back(
        {.name = "targets", .shape = size, .center = 0.5, .differentiable = false});
  } else {
    problem.inputs.push_back(
        {.name = "targets", .shape = {size[0]}, .role = Role::ids, .limit = size[1]});
  }
  const bool scaled = variant == "scaled" || everything;
  if (scaled) {
    problem.inputs.push_back(
        {.name = "scale", .shape = {size[1]}, .role = Role::gain, .center = 1});
  }
  problem.forward = [=](std::span<const Var> in) {
    const Var logits = in_place ? linear(in[0], in[1]) : in[0];
    const Var scale = scaled ? in[targets + 1] : Var{};
    return std::vector{cross_entropy(logits, in[targets], scale, spec).loss};
  };
  return problem;
}

}  // namespace

OpCheck cross_entropy_check() {
  return {.op = "cross_entropy",
          .kind = Kind::loss,
          .variants = {"plain",
                       "scaled",
                       "smoothed",
                       "soft",
                       "softcap",
                       "z_loss",
                       "everything",
                       "in_place",
                       "in_place_plain"},
          .conditions = {Condition::zero_gain, Condition::constant_rows},
          .sizes = {{1, 2}, {2, 3}, {3, 33}, {5, 257}, {17, 65}, {40, 1000}, {3, 4099}},
          .condition_sizes = {{3, 33}, {40, 64}},
          .bench_sizes = {{2048, 65}, {4096, 4096}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
