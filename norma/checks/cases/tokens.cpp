#include "norma/ops/tokens.h"

#include "norma/checks/cases/cases.h"

namespace norma::checks {

namespace {

// Sizes are (B, T, C).
std::vector<Shape> sizes() {
  return {{1, 1, 1}, {2, 3, 5}, {3, 17, 33}, {5, 2, 257}, {16, 5, 64}, {2, 196, 16}};
}

InputSpec sequences(const Shape& size) { return {.name = "x", .shape = size, .role = Role::data}; }

Problem make_prepend(const Shape& size, const std::string&) {
  Problem problem;
  problem.inputs = {
      sequences(size),
      {.name = "token", .shape = {size[2]}, .role = Role::data, .storage = Storage::vector}};
  problem.forward = [](std::span<const Var> in) {
    return std::vector{prepend_token(in[0], in[1])};
  };
  return problem;
}

Problem make_positions(const Shape& size, const std::string&) {
  Problem problem;
  problem.inputs = {sequences(size), {.name = "positions", .shape = {size[1], size[2]}}};
  problem.forward = [](std::span<const Var> in) {
    return std::vector{add_positions(in[0], in[1])};
  };
  return problem;
}

Problem make_pool(const Shape& size, const std::string& variant) {
  const Index first = variant == "skip_first" && size[1] > 1 ? 1 : 0;
  Problem problem;
  problem.inputs = {sequences(size)};
  problem.forward = [first](std::span<const Var> in) {
    return std::vector{mean_pool(in[0], {.first = first})};
  };
  return problem;
}

Problem make_select(const Shape& size, const std::string& variant) {
  const Index index = variant == "first" ? 0 : variant == "last" ? -1 : size[1] / 2;
  Problem problem;
  problem.inputs = {sequences(size)};
  problem.forward = [index](std::span<const Var> in) {
    return std::vector{select_token(in[0], index)};
  };
  return problem;
}

OpCheck check_of(const std::string& op,
                 Kind kind,
                 std::vector<std::string> variants,
                 Problem (*make)(const Shape&, const std::string&)) {
  return {.op = op,
          .kind = kind,
          .variants = std::move(variants),
          .conditions = {Condition::offset, Condition::huge, Condition::tiny},
          .sizes = sizes(),
          .condition_sizes = {{2, 3, 7}, {3, 17, 33}},
          .bench_sizes = {{32, 196, 384}},
          .gpu_bench_sizes = {{256, 196, 1024}},
          .make = make,
          .flops = {}};
}

}  // namespace

OpCheck prepend_token_check() {
  return check_of("prepend_token", Kind::moves, {"plain"}, make_prepend);
}

OpCheck add_positions_check() {
  OpCheck check = check_of("add_positions", Kind::elementwise, {"plain"}, make_positions);
  // Positions beside x of another magnitude are lost in the sum, and differences see nothing.
  check.conditions.clear();
  check.condition_sizes.clear();
  return check;
}

OpCheck mean_pool_check() {
  return check_of("mean_pool", Kind::elementwise, {"all", "skip_first"}, make_pool);
}

OpCheck select_token_check() {
  return check_of("select_token", Kind::moves, {"first", "middle", "last"}, make_select);
}

}  // namespace norma::checks
