#include "norma/ops/batch_norm.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

BatchStatistics statistics_of(const std::string& variant) {
  const auto starts = [&](std::string_view word) { return variant.rfind(word, 0) == 0; };
  if (starts("position")) return BatchStatistics::position;
  if (starts("prefix")) return BatchStatistics::prefix;
  if (starts("running")) return BatchStatistics::running;
  return BatchStatistics::all;
}

Problem make(const Shape& size, const std::string& variant) {
  const auto has = [&](std::string_view word) { return variant.find(word) != std::string::npos; };
  BatchNormSpec spec;
  spec.statistics = statistics_of(variant);
  spec.training = !has("eval");
  spec.momentum = 0;  // the running statistics are inputs here, and inputs must stay as they are
  const bool constant = !spec.training || spec.statistics == BatchStatistics::running;
  const bool lengths = has("lengths");
  const bool gain = !has("bias_only") && !has("bare");
  const bool bias = !has("gain_only") && !has("bare");
  const Shape per_channel{size[2]};
  const Shape running_shape =
      spec.statistics == BatchStatistics::position ? Shape{size[1], size[2]} : per_channel;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .role = Role::data}};
  if (gain) {
    problem.inputs.push_back(
        {.name = "gain", .shape = per_channel, .role = Role::gain, .center = 1});
  }
  if (bias) problem.inputs.push_back({.name = "bias", .shape = per_channel});
  if (lengths) {
    problem.inputs.push_back(
        {.name = "lengths", .shape = {size[0]}, .role = Role::ids, .limit = size[1] + 1});
  }
  if (constant) {
    problem.inputs.push_back({.name = "running mean",
                              .shape = running_shape,
                              .storage = Storage::vector,
                              .differentiable = false});
    problem.inputs.push_back({.name = "running var",
                              .shape = running_shape,
                              .storage = Storage::vector,
                              .center = 2,
                              .spread = 0.2,
                              .differentiable = false});
  }
  problem.forward = [=](std::span<const Var> in) {
    std::size_t at = 1;
    const Var g = gain ? in[at++] : Var{};
    const Var b = bias ? in[at++] : Var{};
    const Var l = lengths ? in[at++] : Var{};
    BatchNormRunning running;
    if (constant) running = {in[at].value(), in[at + 1].value()};
    return std::vector{batch_norm(in[0], g, b, l, running, spec)};
  };
  return problem;
}

}  // namespace

// Conditions are tried on large batches: around 1e4 the steps of the differences are too long for a
// set of few elements, as positions near the longest length have.
OpCheck batch_norm_check() {
  return {.op = "batch_norm",
          .kind = Kind::row_norm,
          .cancels = true,
          .variants = {"all",
                       "position",
                       "prefix",
                       "running",
                       "all_eval",
                       "position_eval",
                       "prefix_eval",
                       "all_lengths",
                       "position_lengths",
                       "prefix_lengths",
                       "running_lengths",
                       "all_gain_only",
                       "position_bias_only",
                       "prefix_bare"},
          .conditions = {Condition::zero_gain,
                         Condition::constant_rows,
                         Condition::offset,
                         Condition::huge,
                         Condition::tiny},
          .sizes = {{1, 1, 1},
                    {1, 5, 3},
                    {5, 1, 3},
                    {2, 3, 31},
                    {3, 2, 32},
                    {3, 5, 33},
                    {4, 7, 63},
                    {17, 3, 65},
                    {2, 40, 20},
                    {5, 17, 257},
                    {8, 3, 1025}},
          .condition_sizes = {{80, 2, 7}, {96, 3, 33}},
          .bench_sizes = {{8, 256, 384}, {16, 256, 1024}},
          .gpu_bench_sizes = {{64, 1024, 768}},
          .make = make,
          .flops = {}};
}

}  // namespace norma::checks
