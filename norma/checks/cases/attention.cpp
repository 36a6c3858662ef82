#include "norma/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

/// Appends an input and returns its place.
std::size_t add_input(Problem& problem, InputSpec spec) {
  problem.inputs.push_back(std::move(spec));
  return problem.inputs.size() - 1;
}

/// size = (B, T, heads, kv_heads, D)
Problem make(const Shape& size, const std::string& variant) {
  const Index B = size[0];
  const Index T = size[1];
  const Index heads = size[2];
  // A cache has three keys more than queries, and room for two more behind them.
  const Index extra = variant == "longer_keys" ? 3 : variant == "cache" ? 5 : 0;
  AttentionSpec spec;
  spec.heads = heads;
  spec.kv_heads = size[3];
  if (variant == "cache") spec.keys = T + 3;
  spec.mask = variant == "full" || variant == "full_padded" ? Mask::full : Mask::causal;
  spec.softcap = variant == "softcap" || variant == "everything" ? 2 : 0;
  spec.log_length = variant == "log_length" || variant == "everything";
  spec.temperature_kind =
      variant == "per_head_tau" ? Temperature::exponential : Temperature::direct;
  if (variant == "ngpt") spec.scale = std::sqrt(static_cast<double>(size[4]));

  // Cosine rules meet unit vectors; with plain normals their logits would be in the hundreds.
  const bool cosine = spec.scale != 0 || variant == "scalar_g" || variant == "per_head_tau";
  if (variant == "scalar_g" || variant == "per_head_tau") spec.scale = 1;
  const double spread = cosine ? 1 / std::sqrt(static_cast<double>(size[4])) : 1;

  Problem problem;
  problem.inputs = {
      {.name = "q", .shape = {B, T, heads * size[4]}, .role = Role::data, .spread = spread},
      {.name = "k",
       .shape = {B, T + extra, size[3] * size[4]},
       .role = Role::data,
       .spread = spread},
      {.name = "v", .shape = {B, T + extra, size[3] * size[4]}, .role = Role::data},
  };
  std::size_t temperature = 0;
  std::size_t log_scale = 0;
  std::size_t lengths = 0;
  if (variant == "scalar_g" || variant == "everything") {
    temperature = add_input(problem, {.name = "g", .shape = {1}, .center = 2});
  }
  if (variant == "per_head_tau") {
    // Spread over the clamp at ln 100: some heads have no gradient.
    temperature = add_input(problem, {.name = "tau", .shape = {heads}, .center = 2, .spread = 2});
  }
  if (spec.log_length) {
    // Of the size at which models start: with larger ones the logits of long rows would be in the
    // tens, and f32 loses as many digits as they have before the point.
    const double start = 1 / std::log(std::max(2.0, static_cast<double>(T)));
    log_scale = add_input(
        problem, {.name = "log_scale", .shape = {heads}, .center = start, .spread = start});
  }
  if (variant == "padded" || variant == "full_padded" || variant == "everything") {
    lengths =
        add_input(problem, {.name = "lengths", .shape = {B}, .role = Role::ids, .limit = T + 1});
  }
  problem.forward = [=](std::span<const Var> in) {
    AttentionExtras extras;
    if (temperature > 0) extras.temperature = in[temperature];
    if (log_scale > 0) extras.log_scale = in[log_scale];
    if (lengths > 0) extras.lengths = in[lengths];
    return std::vector{attention(in[0], in[1], in[2], spec, extras)};
  };
  return problem;
}

}  // namespace

OpCheck attention_check() {
  return {.op = "attention",
          .kind = Kind::attention,
          .cancels = true,  // with one visible key the probability is 1 whatever q and k are
          .variants = {"causal",
                       "full",
                       "padded",
                       "full_padded",
                       "longer_keys",
                       "cache",
                       "softcap",
                       "ngpt",
                       "scalar_g",
                       "per_head_tau",
                       "log_length",
                       "everything"},
          .conditions = {Condition::constant_rows},
          .sizes = {{1, 1, 1, 1, 1},
                    {2, 5, 4, 2, 8},
                    {1, 7, 3, 3, 5},
                    {3, 33, 2, 1, 4},
                    {1, 65, 2, 1, 16},
                    {2, 130, 2, 2, 7},
                    {2, 64, 4, 4, 32},
                    {1, 65, 2, 1, 64},  // the widths that a GPU has kernels of their own for
                    {2, 70, 2, 1, 128}},
          // The whole gradient in one kernel; heads filled up with zeros; heads too wide for that.
          .gpu_sizes = {{2, 256, 2, 2, 64}, {1, 130, 2, 1, 96}, {1, 66, 2, 1, 136}},
          .condition_sizes = {{2, 5, 4, 2, 8}, {1, 65, 2, 1, 4}},
          .bench_sizes = {{12, 64, 4, 4, 32}, {16, 256, 6, 6, 32}, {8, 256, 6, 6, 64}},
          .gpu_bench_sizes = {{64, 1024, 12, 12, 64},
                              {16, 1024, 16, 16, 64},
                              {4, 4096, 16, 16, 64},
                              {2, 8192, 16, 16, 64},
                              {4, 4096, 16, 16, 128}},
          .make = make,
          // The first variant is causal: half of all pairs. Backward has five products for two.
          .flops =
              [](const Shape& s) {
                return 2.0 * static_cast<double>(s[0] * s[1] * s[1] * s[2] * s[4]);
              },
          .backward_flops = 2.5};
}

}  // namespace norma::checks
