#include "norma/ops/views.h"

#include "norma/checks/cases/cases.h"
#include "norma/ops/column_gain.h"
#include "norma/ops/multiply.h"

namespace norma::checks {

namespace {

/// The columns of x in three parts of different widths. Every output uses another part in another
/// way, so that a gradient that reached the wrong columns would show. In `unused` nobody uses the
/// middle part; in `nested` the last part is split again.
Problem make_split(const Shape& size, const std::string& variant) {
  const Index a = size[1];
  const Index b = a + 1;
  const Index c = 2 * a;
  Problem problem;
  problem.inputs = {{.name = "x", .shape = {size[0], a + b + c}, .role = Role::data}};
  problem.forward = [=](std::span<const Var> in) {
    const auto [first, middle, last] = split_columns(in[0], {a, b, c});
    if (variant == "unused") return std::vector{first, multiply(last, last)};
    if (variant == "nested") {
      const auto [left, right] = split_columns(last, {a, a});
      return std::vector{multiply(first, left), middle, right, multiply(right, left)};
    }
    return std::vector{first, multiply(middle, middle), last, multiply(first, first)};
  };
  return problem;
}

/// Rows and columns of x exchanged in number, with a gain per column of the new shape.
Problem make_reshape(const Shape& size, const std::string& variant) {
  const Shape whole = {size[0] * size[1]};
  const Shape turned = {size[1], size[0]};
  Problem problem;
  problem.inputs = {{.name = "x", .shape = size, .storage = Storage::values},
                    {.name = "gain", .shape = {size[0]}}};
  problem.forward = [=](std::span<const Var> in) {
    const Var y = column_gain(reshape(in[0], turned), in[1]);
    if (variant == "once") return std::vector{y};
    const Var again = reshape(y, whole);
    return std::vector{again, multiply(reshape(again, turned), y)};
  };
  return problem;
}

}  // namespace

OpCheck split_columns_check() {
  return {.op = "split_columns",
          .kind = Kind::elementwise,  // moves, but the outputs are squared
          .roundings = 3,             // two gradients of a square and the sum with another
          .variants = {"plain", "unused", "nested"},
          .conditions = {Condition::huge, Condition::tiny},
          .sizes = {{1, 1}, {2, 3}, {17, 31}, {3, 257}, {40, 64}},
          .condition_sizes = row_condition_sizes(),
          .bench_sizes = {{2048, 384}},
          .gpu_bench_sizes = {{65536, 192}},
          .make = make_split,
          .flops = {}};
}

OpCheck reshape_check() {
  return {.op = "reshape",
          .kind = Kind::elementwise,  // moves, but the outputs are multiplied
          .roundings = 3,             // of a product whose factors are rounded
          .variants = {"once", "twice"},
          .conditions = {},
          .sizes = {{1, 1}, {2, 3}, {17, 31}, {3, 257}, {40, 64}},
          .condition_sizes = {},
          .bench_sizes = {{2048, 384}},
          .gpu_bench_sizes = {{65536, 768}},
          .make = make_reshape,
          .flops = {}};
}

}  // namespace norma::checks
