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

/// How an input is kept beside data in bf16, as require_vector_type and the kernels' gradients ask.
/// In f32 and f64 all three are the same.
enum class Storage {
  by_role,  // data: values; everything else: vector where it has one dimension, weight otherwise
  values,   // bf16, and so is the gradient
  weight,   // bf16, its gradient a sum in f32
  vector    // f32, and so is the gradient
};

struct InputSpec {
  std::string name;
  Shape shape;
  Role role = Role::fixed;
  Storage storage = Storage::by_role;
  double center = 0;  // values are center + spread · normal
  double spread = 1;
  Index limit = 0;             // for ids
  bool some_ignored = false;   // for ids: every third is −1
  bool differentiable = true;  // ids never are
  /// For a gradient that is one sum over many terms of either sign: its size when they do not
  /// cancel by chance. f32 is judged against at least this.
  double summed_size = 0;
};
/// Never by_role.
Storage storage_of(const InputSpec& spec);

struct Problem {
  using Function = std::function<std::vector<Var>(std::span<const Var>)>;
  std::vector<InputSpec> inputs;
  Function forward;
  Function composed;  // for a fused op: the same result from simpler ops
  /// For an op that goes on from a value it stored: the same from simpler ops, with that value on
  /// the grid of bf16. What bf16 is judged by, where it is given.
  Function stored_in_bf16;
  /// Who computes may also go on from the value as it was before: either is right.
  bool stored_or_not = false;
};

/// Inputs that bit others.
enum class Condition { plain, zero_gain, constant_rows, offset, huge, tiny };
std::string_view name_of(Condition condition);
/// "huge" is 1e15 times the plain values, "tiny" 1e-15 times, "offset" adds 1e4.
inline constexpr double kHuge = 1e15;
inline constexpr double kTiny = 1e-15;
inline constexpr double kOffset = 1e4;
/// bf16 near 1e4 has steps of 64: a spread of 1 would be lost and every row constant, which is a
/// condition of its own. Near 100 the steps are 1/2.
inline constexpr double kOffsetBf16 = 100;

/// A row of the registry.
struct OpCheck {
  std::string op;  // its name on the tape
  Kind kind = Kind::elementwise;
  /// The op ignores the scale of its data, so where nothing but scale can change (one column) the
  /// gradient is what cancellation leaves; it is then judged against |dy| / |smallest row|.
  bool cancels = false;
  /// How often a value is rounded on its way through a case that is more than one op; bf16's limits
  /// grow with it.
  int roundings = 1;
  std::vector<std::string> variants = {"plain"};
  std::vector<Condition> conditions;  // besides plain; tried on condition_sizes
  std::vector<Shape> sizes;
  std::vector<Shape> gpu_sizes = {};  // besides, on a GPU: where its kernels do all they can
  std::vector<Shape> condition_sizes;
  std::vector<Shape> bench_sizes;
  std::vector<Shape> gpu_bench_sizes;  // where a GPU is busy, and beyond its cache
  std::function<Problem(const Shape& size, const std::string& variant)> make;
  /// Floating-point operations of one forward pass where arithmetic is the limit; absent where
  /// memory is.
  std::function<double(const Shape& size)> flops;
  double backward_flops = 2;          // times those of the forward pass
  bool gradients_in_forward = false;  // written while the inputs are at hand
};

/// Rows × widths around every vector and chunk edge.
std::vector<Shape> row_sweep();
/// A few sizes for conditions on row ops.
std::vector<Shape> row_condition_sizes();
/// The residual streams of GPT-2 124M (64 sequences of 1024) and nGPT 0.5B (16 of 1024).
std::vector<Shape> row_gpu_sizes();

}  // namespace norma::checks
