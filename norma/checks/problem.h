// A problem is one use of an op: inputs with their sizes and a function of them. The same problems
// serve `norma check`, the tests and `norma bench kernels`.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "norma/autograd/tape.h"
#include "norma/checks/limits.h"
#include "norma/tensor/shape.h"

namespace norma::checks {

/// What a condition may do to an input.
enum class Role {
  data,   // activations: may be offset, scaled, made constant along rows
  gain,   // learned factors: may be zero
  fixed,  // weights and anything else that conditions leave alone
  ids     // i32 in [0, limit)
};

struct InputSpec {
  std::string name;
  Shape shape;
  Role role = Role::fixed;
  double center = 0;  // values are center + spread · normal
  double spread = 1;
  Index limit = 0;             // for ids
  bool differentiable = true;  // ids never are
  /// For a gradient that is one sum over many terms of either sign: its size when they do not
  /// cancel by chance. f32 is judged against at least this.
  double summed_size = 0;
};

struct Problem {
  using Function = std::function<std::vector<Var>(std::span<const Var>)>;
  std::vector<InputSpec> inputs;
  Function forward;
  Function composed;  // for a fused op: the same result from simpler ops
};

/// Inputs that bit others.
enum class Condition { plain, zero_gain, constant_rows, offset, huge, tiny };
std::string_view name_of(Condition condition);
/// "huge" is 1e15 times the plain values, "tiny" 1e-15 times, "offset" adds 1e4.
inline constexpr double kHuge = 1e15;
inline constexpr double kTiny = 1e-15;
inline constexpr double kOffset = 1e4;

/// A row of the registry.
struct OpCheck {
  std::string op;  // its name on the tape
  Kind kind = Kind::elementwise;
  /// The op ignores the scale of its data, so where nothing but scale can change (one column) the
  /// gradient is what cancellation leaves; it is then judged against |dy| / |smallest row|.
  bool cancels = false;
  std::vector<std::string> variants = {"plain"};
  std::vector<Condition> conditions;  // besides plain; tried on condition_sizes
  std::vector<Shape> sizes;
  std::vector<Shape> condition_sizes;
  std::vector<Shape> bench_sizes;
  std::function<Problem(const Shape& size, const std::string& variant)> make;
  /// Floating-point operations of one forward pass where arithmetic is the limit; absent where
  /// memory is.
  std::function<double(const Shape& size)> flops;
};

/// Rows × widths around every vector and chunk edge.
std::vector<Shape> row_sweep();
/// A few sizes for conditions on row ops.
std::vector<Shape> row_condition_sizes();

}  // namespace norma::checks
