#include <algorithm>
#include <utility>

#include "norma/autograd/backward.h"
#include "norma/base/bf16.h"
#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

Scratch::Scratch(Arena& arena, Shape shape, DType dtype) : arena_(arena) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  tensor_ = Tensor(arena.allocate(bytes), shape, dtype, arena.device());
}

Scratch::~Scratch() {
  if (tensor_) arena_.release(tensor_.data, tensor_.bytes());
}

// --- Var -----------------------------------------------------------------------------------------

Tensor Var::value() const {
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

Shape Var::shape() const { return tape_->slot(*this).value.shape; }
DType Var::dtype() const { return tape_->slot(*this).value.dtype; }
DType Var::grad_dtype() const { return tape_->slot(*this).grad_dtype; }
bool Var::needs_grad() const { return tape_ != nullptr && tape_->slot(*this).needs_grad; }

Var Var::detach() const {
  tape_->pin(*this);  // the memory now has a second reader
  tape_->slot(*this).aliased = true;
  Tape::Slot slot = tape_->slot(*this);
  slot.leaf = nullptr;
  slot.needs_grad = false;
  slot.has_grad = false;
  slot.unit_seed = false;
  slot.grad_buffer = -1;
  slot.split = -1;
  slot.keep_grad = false;
  slot.remake = nullptr;
  slot.pinned = true;
  return tape_->add_slot(slot);
}

// --- building ------------------------------------------------------------------------------------

const Tape::Slot& Tape::slot(Var v) const {
  if (v.tape_ != this || v.round_ != round_ || v.id_ < 0 ||
      static_cast<std::size_t>(v.id_) >= slots_.size()) {
    throw Error("a Var was used with a tape that does not know it (was the tape reset?).");
  }
  return slots_[static_cast<std::size_t>(v.id_)];
}

Var Tape::add_slot(Slot slot) {
  slots_.push_back(slot);
  return Var(this, static_cast<std::int32_t>(slots_.size()) - 1, round_);
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
  const DType type = leaf.grad.dtype;
  const bool fits = leaf.grad && leaf.grad.shape == leaf.value.shape &&
                    (type == leaf.value.dtype || type == wide(leaf.value.dtype));
  if (leaf.needs_grad && !fits) {
    throw RequestError(say("a leaf ",
                           leaf.value.shape.text(),
                           " needs a gradient of the same shape "
                           "and type, got ",
                           leaf.grad.shape.text(),
                           "."));
  }
  Slot slot;
  slot.value = leaf.value;
  slot.grad_dtype = type;
  slot.pinned = true;
  slot.leaf = &leaf;
  slot.needs_grad = leaf.needs_grad && recording_;
  return add_slot(slot);
}

Var Tape::output(Shape shape, DType dtype, DType grad_dtype) {
  Slot slot;
  slot.value = allocate(shape, dtype);
  slot.grad_dtype = grad_dtype;
  slot.allocation = static_cast<std::int32_t>(allocations_.size()) - 1;
  return add_slot(slot);
}

Var Tape::alias(Var of, const Tensor& view) {
  Slot other;
  other.value = view;
  other.grad_dtype = slot(of).grad_dtype;
  other.allocation = slot(of).allocation;
  other.pinned = true;
  other.aliased = true;
  slot(of).pinned = true;
  slot(of).aliased = true;
  return add_slot(other);
}

Tensor Tape::saved(Shape shape, DType dtype) { return allocate(shape, dtype); }

bool Tape::may_overwrite(Var v) const {
  const Slot& s = slot(v);
  return s.allocation >= 0 && !s.pinned && s.value.contiguous() &&
         !allocations_[static_cast<std::size_t>(s.allocation)].kept;
}

bool Tape::begin_entry(std::string_view op,
                       std::initializer_list<Var> inputs,
                       std::span<const Var> outputs,
                       bool always) {
  if (inputs.size() > kMaxInputs || outputs.size() > kMaxOutputs) {
    throw Error(
        say(op, ": an op has at most ", kMaxInputs, " inputs and ", kMaxOutputs, " outputs."));
  }
  Entry entry;
  entry.op = op;
  entry.label = label_;
  bool wanted = always;
  for (const Var input : inputs) {
    wanted = (input && slot(input).needs_grad) || wanted;
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

void Tape::record_without_gradient(std::string_view op,
                                   std::initializer_list<Var> inputs,
                                   std::initializer_list<Var> outputs) {
  for (const Var input : inputs) {
    if (recording_ && input.needs_grad()) {
      throw RequestError(say(op, " has no gradient; detach() its input if that is what you mean."));
    }
  }
  begin_entry(op, inputs, as_span(outputs), false);
}

void Tape::record_split(std::string_view op, Var input, std::span<const Var> outputs) {
  Index columns = 0;
  for (const Var output : outputs) columns += slot(output).value.shape.cols();
  if (columns != slot(input).value.shape.cols()) {
    throw RequestError(say(op,
                           ": the parts must cover all ",
                           slot(input).value.shape.cols(),
                           " columns, got ",
                           columns,
                           "."));
  }
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
      const Var in(tape, s.input, tape->round_);
      // Columns that nobody used have gradient zero.
      for (int i = 0; i < b.entry_.output_count; ++i) {
        Slot& out =
            tape->slots_[static_cast<std::size_t>(b.entry_.outputs[static_cast<std::size_t>(i)])];
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

void Tape::forget(Var v) {
  const Slot& s = slot(v);
  if (s.allocation < 0 || s.aliased) return;
  Allocation& memory = allocations_[static_cast<std::size_t>(s.allocation)];
  const bool read_later = recording_ && s.pinned;
  const bool can_return = s.remake != nullptr && remakes(s.remake_kind);
  if (memory.kept || !memory.live || (read_later && !can_return)) return;
  arena_.release(memory.block, memory.bytes);
  memory.live = false;
}

bool Tape::forgotten(const Slot& s) const {
  return s.remake != nullptr && s.pinned &&
         !allocations_[static_cast<std::size_t>(s.allocation)].live;
}

void Tape::take_back(Slot& s) {
  Allocation& memory = allocations_[static_cast<std::size_t>(s.allocation)];
  memory.block = arena_.allocate(memory.bytes);
  memory.live = true;
  s.value.data = memory.block;
}

Tape::Slot& Tape::last_output(const Entry& entry) {
  return slots_[static_cast<std::size_t>(
      entry.outputs[static_cast<std::size_t>(entry.output_count) - 1])];
}

void Tape::remember(std::int32_t id) {
  if (id < 0 || !forgotten(slots_[static_cast<std::size_t>(id)])) return;
  Slot& s = slots_[static_cast<std::size_t>(id)];
  const Entry& maker = entries_[static_cast<std::size_t>(s.maker)];
  for (int i = 0; i < maker.input_count; ++i) {  // what it is made from
    remember(maker.inputs[static_cast<std::size_t>(i)]);
  }
  take_back(s);
  s.call_remake(s.remake);
}

void Tape::remember(const Entry& entry) {
  for (int i = entry.patient ? 1 : 0; i < entry.input_count; ++i) {
    remember(entry.inputs[static_cast<std::size_t>(i)]);
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
      const Slot& whole = slots_[static_cast<std::size_t>(split.input)];
      split.grad_buffer = new_buffer(whole.value.shape, whole.grad_dtype, split.joint);
      grad_buffers_[static_cast<std::size_t>(split.grad_buffer)].users = 0;
    }
    s.grad = split.joint.columns(s.split_column, s.value.shape.cols());
    s.grad_buffer = split.grad_buffer;
    ++grad_buffers_[static_cast<std::size_t>(split.grad_buffer)].users;
  } else {
    s.grad_buffer = new_buffer(s.value.shape, s.grad_dtype, s.grad);
  }
  s.has_grad = true;
  s.unit_seed = false;
}

void Tape::drop_grad(Slot& s) {
  if (!s.has_grad) return;
  if (s.grad_buffer >= 0) drop_buffer(s.grad_buffer);  // else lent: not a gradient's memory
  s.has_grad = false;
  s.unit_seed = false;
  s.grad_buffer = -1;
}

void Tape::reset(Index step) {
  if (profile_ != nullptr) profile_->since_last_.restart();
  slots_.clear();
  entries_.clear();
  allocations_.clear();
  grad_buffers_.clear();
  splits_.clear();
  rests_.clear();
  labels_.clear();
  closures_.rewind({});
  arena_.reset();
  recorded_allocations_ = 0;
  label_ = -1;
  step_ = step;
  ++round_;
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
      throw NonFiniteError(say("the first value that is not finite came out of ",
                               entry.op,
                               where(entry.label),
                               " at step ",
                               step_,
                               " (forward)."));
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
      throw NonFiniteError(say("the first gradient that is not finite came out of ",
                               entry.op,
                               where(entry.label),
                               " at step ",
                               step_,
                               " (backward, input ",
                               i,
                               ")."));
    }
  }
}

}  // namespace norma
