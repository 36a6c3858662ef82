// Block-level recomputation: forward keeps only the block's result; backward runs the block again,
// with the same bits, and then its gradients. Memory for compute.
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "norma/autograd/backward.h"
#include "norma/base/error.h"

namespace norma {

/// y = block(inputs). `block` takes std::span<const Var> and returns one Var that it made itself;
/// it may watch leaves. It is called again in backward, so it must be repeatable and trivially
/// destructible (it captures pointers and numbers).
template <class Block>
Var recompute(Tape& tape, std::initializer_list<Var> inputs, Block block) {
  constexpr std::size_t kMost = Tape::kMaxInputs;
  if (inputs.size() == 0 || inputs.size() > kMost) {
    throw RequestError("recompute: a block takes 1 to 8 inputs.");
  }
  std::array<Var, kMost> given;
  std::copy(inputs.begin(), inputs.end(), given.begin());
  const std::size_t count = inputs.size();

  const Var y = tape.evaluate([&] { return block(std::span<const Var>(given.data(), count)); });
  if (!tape.recording()) return y;

  struct Rule {
    Block block;
    std::array<Var, kMost> given;
    std::size_t count;
    Var y;

    void operator()(Backward& b) const {
      Tape& tape = b.tape();
      const Tensor dy = b.grad(y);
      const Tape::Mark mark = tape.mark();
      tape.recorded_allocations_ = mark.allocations;
      // The block sees fresh handles on the same values, so that its inputs' gradients arrive
      // there.
      std::array<Var, kMost> fresh;
      for (std::size_t i = 0; i < count; ++i) {
        fresh[i] = given[i].detach();
        tape.slot(fresh[i]).needs_grad = b.wants(given[i]);
        tape.slot(fresh[i]).pinned = true;
      }
      const Var again = block(std::span<const Var>(fresh.data(), count));
      if (again.needs_grad()) {
        tape.seed(again, dy);
        tape.walk(mark.entries, tape.entry_count(), false);
        tape.drop_grad(tape.slot(again));
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (!tape.slot(fresh[i]).has_grad) continue;
        b.pass(given[i], fresh[i]);
        tape.drop_grad(tape.slot(fresh[i]));
      }
      tape.rewind(mark);
    }
  };
  // Parameters watched inside want gradients even where no input does, hence the marker input: the
  // entry is recorded whenever the tape records.
  tape.record_always("recompute", inputs, {y}, Rule{block, given, count, y});
  return y;
}

}  // namespace norma
