// What a gradient rule sees while it runs: the gradients that reached its outputs, and where to put
// those of its inputs.
#pragma once

#include <array>
#include <utility>

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

  /// The end of a rule of record_patient(), the only part that reads the value of the first input:
  /// `work(Backward&)` is done at once, or, where that value was forgotten, after the rule of the
  /// op that made it, which can make it again beside its gradient. It puts the gradient of `weight`
  /// and nothing else: of a leaf, for which nobody waits. It may read the gradient of `output`, or
  /// `memory`, and of the rest of this rule nothing that does not stay.
  template <class Work>
  void rest(Var weight, Var output, Work work) {
    if (waits(weight) && can_hold(output)) {
      put_off(work).grad_buffer = hold(output);
    } else {
      finish(work);
    }
  }
  template <class Work>
  void rest(Var weight, Scratch& memory, Work work) {
    if (waits(weight)) {
      put_off(work).memory = memory.leave();
    } else {
      finish(work);
    }
  }
  /// For the rule of an op that is cheap to do again: the memory of its last output, if that is
  /// wanted. A rule that has filled it says so with made_again(); else the tape does it.
  Tensor wanted_again() const;
  void made_again() { made_again_ = true; }
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
  const Tape::Slot& first_input() const {
    return tape_.slots_[static_cast<std::size_t>(entry_.inputs[0])];
  }
  /// Whether the first input can come again with the rule of the op that made it, and the gradient
  /// of the weight as late as that: what another op made may be made after the first input.
  bool waits(Var weight) const {
    return entry_.patient && std::as_const(tape_).slot(weight).leaf != nullptr &&
           first_input().has_grad && tape_.forgotten(first_input());
  }
  /// Whether the gradient of an output can outlive this rule; keeps it.
  bool can_hold(Var output) const;
  std::int32_t hold(Var output);
  template <class Work>
  void finish(Work& work) {
    tape_.remember(entry_.inputs[0]);
    work(*this);
  }
  template <class Work>
  Tape::Rest& put_off(Work& work) {
    const auto call = [](void* closure, Backward& b) { (*static_cast<Work*>(closure))(b); };
    return tape_.rests_.emplace_back(Tape::Rest{.entry = entry_,
                                                .maker = first_input().maker,
                                                .closure = tape_.closures_.place(work),
                                                .call = call});
  }
  Target direct_target(Var input);
  static void put(const Tensor& from, const Target& to);
  /// Written before the rule goes on, so what the rule does next may add to it: the same sum, with
  /// the same roundings, as where the memory could be shared.
  void put_at_once(const Tensor& from, Var input);
  bool faulty(Var input) const;
  bool handed_out(Var input) const;
  void settle();

  Tape& tape_;
  const Tape::Entry entry_;  // a copy: rules may record (recompute) and move the list
  std::array<const void*, Tape::kMaxInputs> handed_{};  // gradients this rule is writing
  std::array<Pending, Tape::kMaxInputs> pending_{};
  bool awaited_ = false;  // something waits for the entry's last output
  bool made_again_ = false;
  int handed_count_ = 0;
  int pending_count_ = 0;
};

}  // namespace norma
