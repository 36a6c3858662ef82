// What a gradient rule sees while it runs: the gradients that reached its outputs, and where to put
// those of its inputs.
#pragma once

#include <array>

#include "norma/autograd/tape.h"

namespace norma {

class Backward {
 public:
  /// The gradient that reached an output; zeros if none did.
  Tensor grad(Var output);
  bool has_grad(Var output) const;
  /// Whether that gradient is the 1 with which backward seeds a scalar: known without reading it,
  /// which the host cannot do for a value on the GPU without waiting.
  bool is_unit_seed(Var output) const;
  /// Whether the gradient of this input is wanted. False for absent inputs.
  bool wants(Var input) const;

  struct Target {
    Tensor grad;
    Into into;
  };
  /// Where to put the gradient of an input, and whether to set or add. Call once per place in the
  /// op's list of inputs, only if wanted, and then write all of it. An input that stands in two
  /// places (attention of x with itself) gets memory of its own for the second.
  Target into(Var input);
  /// The gradient of `input` is the gradient of `output`, element by element (reshape, add).
  void pass(Var input, Var output);
  /// The gradient of `input` is already computed and lies in the memory of its own value, which was
  /// overwritten in place. It is used from there, and copied before anything is added to it.
  void lend(Var input, const Tensor& grad);
  Scratch scratch(Shape shape, DType dtype) { return tape_.scratch(shape, dtype); }
  Tape& tape() { return tape_; }

 private:
  friend class Tape;
  Backward(Tape& tape, const Tape::Entry& entry) : tape_(tape), entry_(entry) {}
  /// A gradient that was written aside and still has to be added.
  struct Pending {
    Var input;
    Tensor grad;
    double factor;
  };
  Target direct_target(Var input);
  static void put(const Tensor& from, const Target& to);
  bool faulty(Var input) const;
  bool handed_out(Var input) const;
  void settle();

  Tape& tape_;
  const Tape::Entry entry_;  // a copy: rules may record (recompute) and move the list
  std::array<const void*, Tape::kMaxInputs> handed_{};  // gradients this rule is writing
  std::array<Pending, Tape::kMaxInputs> pending_{};
  int handed_count_ = 0;
  int pending_count_ = 0;
};

}  // namespace norma
