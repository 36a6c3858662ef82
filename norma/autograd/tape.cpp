#include "norma/autograd/tape.h"

#include <algorithm>
#include <utility>

#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

Scratch::Scratch(Arena& arena, Shape shape, DType dtype) : arena_(arena) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  tensor_ = Tensor(arena.allocate(bytes), shape, dtype, arena.device());
}

Scratch::~Scratch() { arena_.release(tensor_.data, tensor_.bytes()); }

// --- Var -----------------------------------------------------------------------------------------

const Tensor& Var::value() const {
  const Tape::Slot& slot = tape_->slot(*this);
  if (slot.consumed) {
    throw Error("this value was overwritten in place by a later op; read it before that op.");
  }
  if (slot.allocation >= 0 &&
      !tape_->allocations_[static_cast<std::size_t>(slot.allocation)].live) {
    throw Error("this value was given back by backward; mark it with keep_value() before.");
  }
  return slot.value;
}

const Shape& Var::shape() const { return tape_->slot(*this).value.shape; }
DType Var::dtype() const { return tape_->slot(*this).value.dtype; }
bool Var::needs_grad() const { return tape_ != nullptr && tape_->slot(*this).needs_grad; }

Var Var::detach() const {
  Tape::Slot slot = tape_->slot(*this);
  slot.leaf = nullptr;
  slot.needs_grad = false;
  slot.has_grad = false;
  slot.grad_buffer = -1;
  slot.split = -1;
  slot.keep_grad = false;
  slot.pinned = true;
  return tape_->add_slot(slot);
}

// --- building ------------------------------------------------------------------------------------

const Tape::Slot& Tape::slot(Var v) const {
  if (v.tape_ != this || v.id_ < 0 || static_cast<std::size_t>(v.id_) >= slots_.size()) {
    throw Error("a Var was used with a tape that does not know it (was the tape reset?).");
  }
  return slots_[static_cast<std::size_t>(v.id_)];
}

Var Tape::add_slot(Slot slot) {
  slots_.push_back(slot);
  return Var(this, static_cast<std::int32_t>(slots_.size()) - 1);
}

Tensor Tape::allocate(Shape shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  void* block = arena_.allocate(bytes);
  allocations_.push_back({block, bytes, false, true});
  return Tensor(block, shape, dtype, arena_.device());
}

Var Tape::constant(const Tensor& value) {
  Slot slot;
  slot.value = value;
  slot.pinned = true;
  return add_slot(slot);
}

Var Tape::watch(Leaf& leaf) {
  if (leaf.needs_grad && (leaf.grad.dtype != leaf.value.dtype ||
                          !(leaf.grad.shape == leaf.value.shape) || !leaf.grad)) {
    throw RequestError(say("a leaf ", leaf.value.shape.text(), " needs a gradient of the same shape "
                           "and type, got ", leaf.grad.shape.text(), "."));
  }
  Slot slot;
  slot.value = leaf.value;
  slot.pinned = true;
  slot.leaf = &leaf;
  slot.needs_grad = leaf.needs_grad && recording_;
  return add_slot(slot);
}

Var Tape::output(Shape shape, DType dtype) {
  Slot slot;
  slot.value = allocate(shape, dtype);
  slot.allocation = static_cast<std::int32_t>(allocations_.size()) - 1;
  return add_slot(slot);
}

Var Tape::alias(Var of, const Tensor& view) {
  Slot other;
  other.value = view;
  other.allocation = slot(of).allocation;
  other.pinned = true;
  slot(of).pinned = true;
  return add_slot(other);
}

Tensor Tape::saved(Shape shape, DType dtype) { return allocate(shape, dtype); }

bool Tape::may_overwrite(Var v) const {
  const Slot& s = slot(v);
  return s.allocation >= 0 && !s.pinned && s.value.contiguous();
}

bool Tape::begin_entry(std::string_view op, std::initializer_list<Var> inputs,
                       std::span<const Var> outputs, bool always) {
  Entry entry;
  entry.op = op;
  entry.label = label_;
  bool wanted = always;
  for (const Var input : inputs) {
    wanted = wanted || (input && slot(input).needs_grad);
    entry.inputs[static_cast<std::size_t>(entry.input_count++)] = input ? input.id_ : -1;
  }
  for (const Var output : outputs) {
    entry.outputs[static_cast<std::size_t>(entry.output_count++)] = output.id_;
  }
  if (trace_) trace_outputs(entry);
  if (profile_ != nullptr) {
    Profile::Row& row = profile_->row(op);
    row.forward_s += profile_->since_last_.seconds();
    ++row.calls;
    profile_->since_last_.restart();
  }
  if (!wanted || !recording_) return false;
  for (const Var output : outputs) slot(output).needs_grad = true;
  entry.first_allocation = recorded_allocations_;
  entry.last_allocation = allocations_.size();
  recorded_allocations_ = allocations_.size();
  entries_.push_back(entry);
  return true;
}

void Tape::record_without_gradient(std::string_view op, std::initializer_list<Var> inputs,
                                   std::initializer_list<Var> outputs) {
  for (const Var input : inputs) {
    if (recording_ && input.needs_grad()) {
      throw RequestError(
          say(op, " has no gradient; detach() its input if that is what you mean."));
    }
  }
  begin_entry(op, inputs, as_span(outputs), false);
}

void Tape::record_split(std::string_view op, Var input, std::span<const Var> outputs) {
  if (!begin_entry(op, {input}, outputs, false)) return;
  const auto split = static_cast<std::int32_t>(splits_.size());
  splits_.push_back({input.id_, -1, Tensor{}});
  Index column = 0;
  for (const Var output : outputs) {
    Slot& out = slot(output);
    out.split = split;
    out.split_column = column;
    column += out.value.shape.cols();
  }
  struct Rule {
    Tape* tape;
    std::int32_t split;
    void operator()(Backward& b) const {
      Split& s = tape->splits_[static_cast<std::size_t>(split)];
      const Var in(tape, s.input);
      // Columns that nobody used have gradient zero.
      for (int i = 0; i < b.entry_.output_count; ++i) {
        Slot& out = tape->slots_[static_cast<std::size_t>(
            b.entry_.outputs[static_cast<std::size_t>(i)])];
        if (!out.has_grad) {
          tape->new_grad(out);
          fill(out.grad, 0);
        }
      }
      Slot joint;
      joint.value = s.joint;
      joint.grad = s.joint;
      joint.grad_buffer = s.grad_buffer;
      joint.has_grad = true;
      joint.needs_grad = true;
      const Var whole = tape->add_slot(joint);
      ++tape->grad_buffers_[static_cast<std::size_t>(s.grad_buffer)].users;
      b.pass(in, whole);
      tape->drop_grad(tape->slot(whole));
      tape->slots_.pop_back();
      s.grad_buffer = -1;
    }
  };
  set_rule(Rule{this, split});
}

// --- memory --------------------------------------------------------------------------------------

void Tape::release_allocations(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    Allocation& allocation = allocations_[i];
    if (!allocation.live || allocation.kept) continue;
    arena_.release(allocation.block, allocation.bytes);
    allocation.live = false;
  }
}

void Tape::keep_only(Var result, std::size_t mark) {
  const Slot& kept = slot(result);
  if (kept.allocation < 0 || static_cast<std::size_t>(kept.allocation) < mark) {
    throw RequestError("evaluate: the block must return a value that it made itself.");
  }
  bool& flag = allocations_[static_cast<std::size_t>(kept.allocation)].kept;
  const bool former = std::exchange(flag, true);
  release_allocations(mark, allocations_.size());
  flag = former;
}

void Tape::keep_value(Var v) {
  const Slot& s = slot(v);
  if (s.allocation >= 0) allocations_[static_cast<std::size_t>(s.allocation)].kept = true;
}

std::int32_t Tape::new_buffer(Shape shape, DType dtype, Tensor& grad) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  grad = Tensor(arena_.allocate(bytes), shape, dtype, arena_.device());
  grad_buffers_.push_back({grad.data, bytes, 1});
  return static_cast<std::int32_t>(grad_buffers_.size()) - 1;
}

void Tape::drop_buffer(std::int32_t buffer) {
  GradBuffer& b = grad_buffers_[static_cast<std::size_t>(buffer)];
  if (--b.users == 0) arena_.release(b.block, b.bytes);
}

void Tape::new_grad(Slot& s) {
  if (s.split >= 0) {
    Split& split = splits_[static_cast<std::size_t>(s.split)];
    if (split.grad_buffer < 0) {
      const Tensor& whole = slots_[static_cast<std::size_t>(split.input)].value;
      split.grad_buffer = new_buffer(whole.shape, whole.dtype, split.joint);
      grad_buffers_[static_cast<std::size_t>(split.grad_buffer)].users = 0;
    }
    s.grad = split.joint.columns(s.split_column, s.value.shape.cols());
    s.grad_buffer = split.grad_buffer;
    ++grad_buffers_[static_cast<std::size_t>(split.grad_buffer)].users;
  } else {
    s.grad_buffer = new_buffer(s.value.shape, s.value.dtype, s.grad);
  }
  s.has_grad = true;
}

void Tape::drop_grad(Slot& s) {
  if (!s.has_grad) return;
  if (s.grad_buffer >= 0) drop_buffer(s.grad_buffer);  // else lent: not a gradient's memory
  s.has_grad = false;
  s.grad_buffer = -1;
}

void Tape::reset(Index step) {
  if (profile_ != nullptr) profile_->since_last_.restart();
  slots_.clear();
  entries_.clear();
  allocations_.clear();
  grad_buffers_.clear();
  splits_.clear();
  labels_.clear();
  closures_.rewind({});
  arena_.reset();
  recorded_allocations_ = 0;
  label_ = -1;
  step_ = step;
}

Tape::Mark Tape::mark() const {
  return {slots_.size(), entries_.size(), allocations_.size(), splits_.size(), closures_.mark()};
}

void Tape::rewind(const Mark& mark) {
  release_allocations(mark.allocations, allocations_.size());
  slots_.resize(mark.slots);
  entries_.resize(mark.entries);
  allocations_.resize(mark.allocations);
  splits_.resize(mark.splits);
  closures_.rewind(mark.closures);
  recorded_allocations_ = std::min(recorded_allocations_, mark.allocations);
}

// --- gradients -----------------------------------------------------------------------------------

void Tape::seed(Var root, const Tensor& with) {
  Slot& s = slot(root);
  if (!s.needs_grad) {
    throw RequestError("backward: nothing that this value was made from wants a gradient.");
  }
  if (with) {
    if (with.count() != s.value.count() || with.shape.cols() != s.value.shape.cols() ||
        with.dtype != s.value.dtype) {
      throw ShapeError("backward", "the seed", s.value.shape.text(), with.shape.text());
    }
  } else if (s.value.count() != 1) {
    throw ShapeError("backward", "a value without a seed", "a scalar", s.value.shape.text());
  }
  if (s.leaf != nullptr) {
    throw RequestError("backward: the root is a leaf; its gradient is the seed itself.");
  }
  const bool first = !s.has_grad;
  if (first) new_grad(s);
  if (!with) {
    fill(s.grad, 1);
  } else if (first) {
    copy(with, s.grad);
  } else {
    add(with, s.grad);
  }
}

void Tape::backward(std::span<const Var> roots, std::span<const Tensor> seeds, BackwardSpec spec) {
  if (!seeds.empty() && seeds.size() != roots.size()) {
    throw RequestError(
        say("backward: ", roots.size(), " roots need as many seeds, got ", seeds.size(), "."));
  }
  for (Slot& s : slots_) drop_grad(s);
  for (Split& split : splits_) split.grad_buffer = -1;
  grad_buffers_.clear();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    keep_value(roots[i]);
    seed(roots[i], seeds.empty() ? Tensor{} : seeds[i]);
  }
  walk(0, entries_.size(), spec.keep);
}

void Tape::walk(std::size_t first, std::size_t last, bool keep) {
  for (std::size_t i = last; i-- > first;) {
    Backward context(*this, entries_[i]);
    const Entry& entry = context.entry_;
    const bool reached = std::any_of(
        entry.outputs.begin(), entry.outputs.begin() + entry.output_count,
        [&](std::int32_t id) { return slots_[static_cast<std::size_t>(id)].has_grad; });
    if (reached) {
      const Stopwatch watch;
      entry.call(entry.closure, context);
      if (profile_ != nullptr) profile_->row(entry.op).backward_s += watch.seconds();
      context.settle();
      if (trace_) trace_grads(entry);
    }
    for (int k = 0; k < entry.output_count; ++k) {
      Slot& out = slots_[static_cast<std::size_t>(entry.outputs[static_cast<std::size_t>(k)])];
      if (!out.keep_grad) drop_grad(out);
    }
    if (!keep) release_allocations(entry.first_allocation, entry.last_allocation);
  }
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

bool Backward::wants(Var input) const { return input && std::as_const(tape_).slot(input).needs_grad; }

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

bool Backward::handed_out(Var input) const {
  const Tape::Slot& s = std::as_const(tape_).slot(input);
  const void* where = s.leaf != nullptr ? s.leaf->grad.data : s.has_grad ? s.grad.data : nullptr;
  return where != nullptr && std::find(handed_.begin(), handed_.begin() + handed_count_, where) !=
                                 handed_.begin() + handed_count_;
}

Backward::Target Backward::into(Var input) {
  const bool fault = faulty(input);
  if (fault || handed_out(input)) {
    const Tensor& value = tape_.slot(input).value;
    const Tensor aside(tape_.arena_.allocate(value.bytes()), value.shape, value.dtype,
                       value.device);
    pending_[static_cast<std::size_t>(pending_count_++)] = {input, aside,
                                                            fault ? tape_.fault_.factor : 1.0};
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
  // Columns of a split belong to this slot alone, although the memory has other users.
  const bool lent = s.grad_buffer < 0;
  const bool shared =
      lent || (s.split < 0 &&
               tape_.grad_buffers_[static_cast<std::size_t>(s.grad_buffer)].users > 1);
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
  if (!wants(input)) return;
  Tape::Slot& out = tape_.slot(output);
  Tape::Slot& in = tape_.slot(input);
  const bool may_share = in.leaf == nullptr && !in.has_grad && in.split < 0 && out.split < 0 &&
                         out.grad_buffer >= 0 &&
                         !out.keep_grad && !in.keep_grad && out.grad.contiguous() &&
                         !faulty(input);
  if (may_share) {
    in.grad = out.grad.reshaped(in.value.shape);
    in.grad_buffer = out.grad_buffer;
    in.has_grad = true;
    ++tape_.grad_buffers_[static_cast<std::size_t>(out.grad_buffer)].users;
    return;
  }
  const Tensor from = out.grad.contiguous() ? out.grad.reshaped(in.value.shape) : out.grad;
  put(from, into(input));
}

void Backward::lend(Var input, const Tensor& grad) {
  Tape::Slot& in = tape_.slot(input);
  if (in.leaf == nullptr && !in.has_grad && in.split < 0 && !in.keep_grad && !faulty(input)) {
    in.grad = grad;
    in.grad_buffer = -1;
    in.has_grad = true;
    return;
  }
  put(grad, into(input));
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

// --- looking -------------------------------------------------------------------------------------

Profile::Row& Profile::row(std::string_view op) {
  for (Row& row : rows_) {
    if (row.op == op) return row;
  }
  rows_.push_back({op});
  return rows_.back();
}

std::string Tape::where(std::int32_t label) const {
  std::string path;
  for (std::int32_t at = label; at >= 0; at = labels_[static_cast<std::size_t>(at)].parent) {
    const std::string name(labels_[static_cast<std::size_t>(at)].name);
    path = path.empty() ? name : name + " / " + path;
  }
  return path.empty() ? "" : " in " + path;
}

void Tape::trace_outputs(const Entry& entry) const {
  for (int i = 0; i < entry.output_count; ++i) {
    const Slot& out = slots_[static_cast<std::size_t>(entry.outputs[static_cast<std::size_t>(i)])];
    if (!all_finite(out.value)) {
      throw NonFiniteError(say("the first value that is not finite came out of ", entry.op,
                               where(entry.label), " at step ", step_, " (forward)."));
    }
  }
}

void Tape::trace_grads(const Entry& entry) const {
  for (int i = 0; i < entry.input_count; ++i) {
    const std::int32_t id = entry.inputs[static_cast<std::size_t>(i)];
    if (id < 0) continue;
    const Slot& in = slots_[static_cast<std::size_t>(id)];
    const bool leaf_grad = in.leaf != nullptr && in.needs_grad;
    if ((leaf_grad && !all_finite(in.leaf->grad)) || (in.has_grad && !all_finite(in.grad))) {
      throw NonFiniteError(say("the first gradient that is not finite came out of ", entry.op,
                               where(entry.label), " at step ", step_, " (backward, input ", i,
                               ")."));
    }
  }
}

}  // namespace norma
