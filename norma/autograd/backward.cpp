#include "norma/autograd/backward.h"

#include <algorithm>
#include <utility>

#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

void Tape::seed(Var root, const Tensor& with) {
  Slot& s = slot(root);
  if (!s.needs_grad) {
    throw RequestError("backward: nothing that this value was made from wants a gradient.");
  }
  if (with) {
    if (with.count() != s.value.count() || with.shape.cols() != s.value.shape.cols() ||
        with.dtype != s.grad_dtype) {
      throw ShapeError("backward", "the seed", s.value.shape.text(), with.shape.text());
    }
  } else if (s.value.count() != 1) {
    throw ShapeError("backward", "a value without a seed", "a scalar", s.value.shape.text());
  }
  if (s.leaf != nullptr) {
    throw RequestError("backward: the root is a leaf; its gradient is the seed itself.");
  }
  if (with && !s.has_grad && with.contiguous() && s.split < 0 && !s.keep_grad) {
    s.grad = with.reshaped(s.value.shape);  // lent, not copied
    s.grad_buffer = -1;
    s.has_grad = true;
    return;
  }
  if (s.has_grad && s.grad_buffer < 0) {  // named twice: what is lent stays as it is
    const Tensor lent = s.grad;
    new_grad(s);
    copy(lent, s.grad);
  }
  const bool first = !s.has_grad;
  if (first) new_grad(s);
  s.unit_seed = first && !with;
  if (with) {
    if (first) fill(s.grad, 0);
    add(with, s.grad);
  } else if (first) {
    fill(s.grad, 1);
  } else {  // a root that is named twice counts twice
    const Scratch one(arena_, s.value.shape, s.grad_dtype);
    fill(one.tensor(), 1);
    add(one.tensor(), s.grad);
  }
}

void Tape::backward(std::span<const Var> roots, std::span<const Tensor> seeds, BackwardSpec spec) {
  if (!seeds.empty() && seeds.size() != roots.size()) {
    throw RequestError(
        say("backward: ", roots.size(), " roots need as many seeds, got ", seeds.size(), "."));
  }
  rests_.clear();  // of a backward that failed
  for (Slot& s : slots_) drop_grad(s);
  for (Split& split : splits_) split.grad_buffer = -1;
  grad_buffers_.clear();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    keep_value(roots[i]);
    seed(roots[i], seeds.empty() ? Tensor{} : seeds[i]);
  }
  walk(0, entries_.size(), spec.keep);
}

void Tape::run_rule(Backward& context, void (*call)(void*, Backward&), void* closure) {
  const Entry& entry = context.entry_;
  label_ = entry.label;  // what a recomputed block records stands below its own label
  const Stopwatch watch;
  remember(entry);
  call(closure, context);
  if (profile_ != nullptr) profile_->row(entry.op).backward_s += watch.seconds();
  context.settle();
  if (trace_) trace_grads(entry);
}

void Tape::run_rests(std::size_t maker) {
  // In the order in which they were left. None of them leaves another.
  for (std::size_t k = 0; k < rests_.size(); ++k) {
    if (static_cast<std::size_t>(rests_[k].maker) != maker) continue;
    Backward context(*this, rests_[k].entry);
    run_rule(context, rests_[k].call, rests_[k].closure);
    const Tensor& memory = rests_[k].memory;
    if (memory) arena_.release(memory.data, memory.bytes());
    if (rests_[k].grad_buffer >= 0) drop_buffer(rests_[k].grad_buffer);
  }
  std::erase_if(rests_,
                [&](const Rest& rest) { return static_cast<std::size_t>(rest.maker) == maker; });
}

void Tape::walk(std::size_t first, std::size_t last, bool keep) {
  const std::int32_t former_label = label_;
  for (std::size_t i = last; i-- > first;) {
    Backward context(*this, entries_[i]);
    const Entry& entry = context.entry_;
    const bool reached = std::any_of(
        entry.outputs.begin(), entry.outputs.begin() + entry.output_count, [&](std::int32_t id) {
          return slots_[static_cast<std::size_t>(id)].has_grad;
        });
    if (reached) {
      if (entry.spent) {
        throw Error(say("backward: the values of ",
                        entry.op,
                        " were given back by an earlier "
                        "backward; give that one keep = true."));
      }
      context.awaited_ = std::any_of(rests_.begin(), rests_.end(), [&](const Rest& rest) {
        return static_cast<std::size_t>(rest.maker) == i;
      });
      if (context.awaited_) take_back(last_output(entry));
      run_rule(context, entry.call, entry.closure);
      if (context.awaited_) {
        const Slot& again = last_output(entry);
        if (!context.made_again_) again.call_remake(again.remake);
        run_rests(i);
      }
    }
    for (int k = 0; k < entry.output_count; ++k) {
      Slot& out = slots_[static_cast<std::size_t>(entry.outputs[static_cast<std::size_t>(k)])];
      if (!out.keep_grad) drop_grad(out);
    }
    if (!keep) {
      release_allocations(entry.first_allocation, entry.last_allocation);
      entries_[i].spent = true;
    }
  }
  label_ = former_label;
}

Tensor Tape::grad(Var v) const {
  const Slot& s = slot(v);
  if (!s.keep_grad || !s.has_grad) {
    throw Error("no gradient is kept for this value; call keep_grad() before backward.");
  }
  return s.grad;
}

Tensor Backward::grad(Var output) {
  Tape::Slot& s = tape_.slot(output);
  if (!s.has_grad) {
    tape_.new_grad(s);
    fill(s.grad, 0);
  }
  return s.grad;
}

bool Backward::has_grad(Var output) const { return std::as_const(tape_).slot(output).has_grad; }

bool Backward::can_hold(Var output) const {
  const Tape::Slot& s = std::as_const(tape_).slot(output);
  return s.has_grad && s.grad_buffer >= 0;  // what is lent goes with its value
}

std::int32_t Backward::hold(Var output) {
  const std::int32_t buffer = tape_.slot(output).grad_buffer;
  ++tape_.grad_buffers_[static_cast<std::size_t>(buffer)].users;
  return buffer;
}

Tensor Backward::wanted_again() const {
  return awaited_ ? tape_.last_output(entry_).value : Tensor{};
}

bool Backward::is_unit_seed(Var output) const {
  return std::as_const(tape_).slot(output).unit_seed;
}

bool Backward::wants(Var input) const {
  return input && std::as_const(tape_).slot(input).needs_grad;
}

bool Backward::faulty(Var input) const {
  const Fault& fault = tape_.fault_;
  return fault.op == entry_.op && fault.input < entry_.input_count &&
         entry_.inputs[static_cast<std::size_t>(fault.input)] == input.id_;
}

void Backward::put(const Tensor& from, const Target& to) {
  if (to.into == Into::set) {
    copy(from, to.grad);
  } else {
    add(from, to.grad);
  }
}

void Backward::put_at_once(const Tensor& from, Var input) {
  const int handed = handed_count_;
  put(from, into(input));
  handed_count_ = handed;  // it is written: what follows may add to it
}

bool Backward::handed_out(Var input) const {
  const Tape::Slot& s = std::as_const(tape_).slot(input);
  const void* where = s.leaf != nullptr ? s.leaf->grad.data : s.has_grad ? s.grad.data : nullptr;
  return where != nullptr && std::find(handed_.begin(), handed_.begin() + handed_count_, where) !=
                                 handed_.begin() + handed_count_;
}

Backward::Target Backward::into(Var input) {
  const bool fault = faulty(input);
  if (fault || handed_out(input)) {
    const Tape::Slot& s = tape_.slot(input);
    const Shape& shape = s.value.shape;
    const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(s.grad_dtype);
    const Tensor aside(tape_.arena_.allocate(bytes), shape, s.grad_dtype, s.value.device);
    pending_[static_cast<std::size_t>(pending_count_++)] = {
        input, aside, fault ? tape_.fault_.factor : 1.0};
    return {aside, Into::set};
  }
  const Target target = direct_target(input);
  handed_[static_cast<std::size_t>(handed_count_++)] = target.grad.data;
  return target;
}

Backward::Target Backward::direct_target(Var input) {
  Tape::Slot& s = tape_.slot(input);
  if (s.leaf != nullptr) {
    return {s.leaf->grad, std::exchange(s.leaf->fresh, false) ? Into::set : Into::add};
  }
  if (!s.has_grad) {
    tape_.new_grad(s);
    return {s.grad, Into::set};
  }
  s.unit_seed = false;
  // Columns of a split belong to this slot alone, although the memory has other users.
  const bool lent = s.grad_buffer < 0;
  const bool shared =
      lent ||
      (s.split < 0 && tape_.grad_buffers_[static_cast<std::size_t>(s.grad_buffer)].users > 1);
  if (shared) {
    const Tensor former = s.grad;
    const std::int32_t former_buffer = s.grad_buffer;
    tape_.new_grad(s);
    copy(former, s.grad);
    if (!lent) tape_.drop_buffer(former_buffer);
  }
  return {s.grad, Into::add};
}

void Backward::pass(Var input, Var output) {
  if (!wants(input) || !has_grad(output)) return;
  Tape::Slot& out = tape_.slot(output);
  Tape::Slot& in = tape_.slot(input);
  const bool may_share = in.leaf == nullptr && !in.has_grad && in.split < 0 && out.split < 0 &&
                         out.grad_buffer >= 0 && !out.keep_grad && !in.keep_grad &&
                         out.grad.contiguous() && !faulty(input);
  if (may_share) {
    in.grad = out.grad.reshaped(in.value.shape);
    in.grad_buffer = out.grad_buffer;
    in.has_grad = true;
    in.unit_seed = out.unit_seed;
    ++tape_.grad_buffers_[static_cast<std::size_t>(out.grad_buffer)].users;
    return;
  }
  const Tensor from = out.grad.contiguous() ? out.grad.reshaped(in.value.shape) : out.grad;
  put_at_once(from, input);
}

void Backward::lend(Var input, const Tensor& grad) {
  Tape::Slot& in = tape_.slot(input);
  if (in.leaf == nullptr && !in.has_grad && in.split < 0 && !in.keep_grad && !faulty(input)) {
    in.grad = grad;
    in.grad_buffer = -1;
    in.has_grad = true;
    return;
  }
  put_at_once(grad, input);
}

void Backward::settle() {
  for (int i = 0; i < pending_count_; ++i) {
    const Pending& pending = pending_[static_cast<std::size_t>(i)];
    if (pending.factor != 1) {
      ++tape_.faults_planted_;
      scale(pending.grad, pending.factor);
    }
    put(pending.grad, direct_target(pending.input));
    tape_.arena_.release(pending.grad.data, pending.grad.bytes());
  }
}

}  // namespace norma
