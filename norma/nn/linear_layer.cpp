#include "norma/nn/linear_layer.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/ops/linear.h"
#include "norma/ops/views.h"
#include "norma/ops/weight_norm.h"

namespace norma {

namespace {

Constraint constraint_of(WeightRule rule) {
  switch (rule) {
    case WeightRule::unit:
      return Constraint::unit;
    case WeightRule::row_max:
      return Constraint::row_max;
    case WeightRule::frobenius:
      return Constraint::frobenius;
    case WeightRule::spectral:
      return Constraint::spectral;
    case WeightRule::free:
    case WeightRule::parametrized:
    case WeightRule::weight_norm:
      break;
  }
  return Constraint::free;
}

/// The vectors of length d: columns of what writes to the stream, rows of everything else.
VectorAxis axis_of(ParamClass kind) {
  const bool writes =
      kind == ParamClass::attn_out || kind == ParamClass::ffn_down || kind == ParamClass::patch;
  return writes ? VectorAxis::columns : VectorAxis::rows;
}

}  // namespace

ParamTags matrix_tags(ParamClass kind, const Scheme& scheme) {
  return {.kind = kind,
          .decay = scheme.decay[kind],
          .constraint = constraint_of(scheme.weights[kind]),
          .axis = axis_of(kind)};
}

Var effective_weight(Var weight, Var magnitude, WeightRule rule, VectorAxis axis) {
  if (rule == WeightRule::weight_norm) return weight_norm(weight, magnitude);
  if (rule == WeightRule::parametrized) {
    const auto along = axis == VectorAxis::rows ? WeightAxis::rows : WeightAxis::columns;
    return weight_norm(weight, {}, {.axis = along});
  }
  return weight;
}

LinearLayer::LinearLayer(std::span<const Part> parts,
                         Index in,
                         const Scheme& scheme,
                         ParamStore& params)
    : params_(&params) {
  std::size_t first = 0;
  while (first < parts.size()) {
    const WeightRule rule = scheme.weights[parts[first].kind];
    const bool bias = parts[first].bias;
    std::size_t last = first + 1;
    while (last < parts.size() && scheme.weights[parts[last].kind] == rule &&
           parts[last].bias == bias) {
      ++last;
    }
    Group group;
    group.has_bias = bias;
    group.rule = rule;
    group.axis = axis_of(parts[first].kind);
    std::vector<ParamSpec> weights;
    std::vector<ParamSpec> biases;
    std::vector<ParamSpec> magnitudes;
    for (const Part& part : parts.subspan(first, last - first)) {
      group.widths.push_back(part.out);
      weights.push_back(
          {say(part.name, ".weight"), {part.out, in}, matrix_tags(part.kind, scheme)});
      biases.push_back({say(part.name, ".bias"),
                        {part.out},
                        {.kind = ParamClass::bias, .decay = scheme.decay[ParamClass::bias]}});
      magnitudes.push_back(
          {say(part.name, ".magnitude"),
           {part.out},
           {.kind = ParamClass::magnitude, .decay = scheme.decay[ParamClass::magnitude]},
           1});
    }
    group.weight = params.add_fused(weights);
    if (bias) group.bias = params.add_fused(biases);
    if (rule == WeightRule::weight_norm) group.magnitude = params.add_fused(magnitudes);
    groups_.push_back(std::move(group));
    first = last;
  }
}

Var LinearLayer::weight(Tape& tape, const Group& group) const {
  const Var magnitude =
      group.rule == WeightRule::weight_norm ? tape.watch(params_->leaf(group.magnitude)) : Var{};
  return effective_weight(
      tape.watch(params_->leaf(group.weight)), magnitude, group.rule, group.axis);
}

Var LinearLayer::product(Tape& tape, const Group& group, Var x, Var onto) const {
  const Var bias = group.has_bias ? tape.watch(params_->leaf(group.bias)) : Var{};
  return linear(x, weight(tape, group), bias, onto);
}

void LinearLayer::apply(Tape& tape, Var x, std::span<Var> results) const {
  std::size_t at = 0;
  for (const Group& group : groups_) {
    const Var y = product(tape, group, x);
    const std::size_t count = group.widths.size();
    if (count == 1) {
      results[at] = y;
    } else {
      split_columns(y, group.widths, results.subspan(at, count));
    }
    at += count;
  }
}

Var LinearLayer::apply(Tape& tape, Var x, Var onto) const {
  return product(tape, groups_.front(), x, onto);
}

}  // namespace norma
