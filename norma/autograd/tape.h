// The tape: ops compute at once and record their gradient rule; backward walks the rules in
// reverse. It knows no concrete op.
//
// Memory. Values and gradients of one step live in the tape's arena. A value lives until the rule
// of the op that made it has run; gradients live until they have been used. reset() starts the next
// step. The same sequence of ops gives the same addresses, and nothing is allocated from the second
// step on.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "norma/autograd/closure_arena.h"
#include "norma/autograd/var.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/into.h"
#include "norma/tensor/arena.h"

namespace norma {

class Backward;

/// A NaN or infinity met in trace mode: which op first produced it, where and when.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// Temporary memory of one op; given back at the end of the scope.
class Scratch {
 public:
  Scratch(Arena& arena, Shape shape, DType dtype);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const Tensor& tensor() const { return tensor_; }
  /// Leaves it to the caller to give the memory back.
  Tensor leave() { return std::exchange(tensor_, {}); }

 private:
  Arena& arena_;
  Tensor tensor_;
};

/// For tests of the tests: multiplies the gradient that one op hands to one of its inputs.
struct Fault {
  std::string op;
  int input = 0;
  double factor = 1.01;
};

/// Where the time of a step goes, op by op.
class Profile {
 public:
  struct Row {
    std::string_view op;
    double forward_s = 0;
    double backward_s = 0;
    Index calls = 0;
  };
  const std::vector<Row>& rows() const { return rows_; }

 private:
  friend class Tape;
  Row& row(std::string_view op);
  std::vector<Row> rows_;
  Stopwatch since_last_;  // an op's forward time is what passed since the op before it
};

/// What backward makes again rather than keep: nothing, what activations made, or norms as well.
enum class Remaking : std::uint8_t { nothing, activations, norms };

class Tape {
 public:
  explicit Tape(Device device = {}) : arena_(device) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // --- building ------------------------------------------------------------------------------
  /// Data: a value from outside that has no gradient. The caller keeps the memory.
  Var constant(const Tensor& value);
  /// A parameter or input; its gradient goes to leaf.grad.
  Var watch(Leaf& leaf);
  /// A new value for an op to fill, with gradients of the same type.
  Var output(Shape shape, DType dtype) { return output(shape, dtype, dtype); }
  /// The same for a value whose gradient sums over many rows, as a weight's does.
  Var output(Shape shape, DType dtype, DType grad_dtype);
  /// A value that shares another's memory (reshape, columns).
  Var alias(Var of, const Tensor& view);
  /// What an op's rule needs besides values: statistics, masks. Lives as long as the op's output.
  Tensor saved(Shape shape, DType dtype);
  Scratch scratch(Shape shape, DType dtype) { return Scratch(arena_, shape, dtype); }

  /// Declares that a rule will read this value, so nobody may overwrite it in place.
  void pin(Var v) {
    if (v) slot(v).pinned = true;
  }
  bool pinned(Var v) const { return slot(v).pinned; }
  /// Declares that an op has overwritten this value in place.
  void consume(Var v) { slot(v).consumed = true; }
  /// Whether v's memory is the tape's own and no rule reads it: an op may work in place.
  bool may_overwrite(Var v) const;

  /// Ends an op: `rule(Backward&)` is kept if any input wants a gradient. The rule's closure holds
  /// Vars, Tensors and numbers only. Absent inputs keep their place in the list.
  template <class Rule>
  void record(std::string_view op,
              std::initializer_list<Var> inputs,
              std::initializer_list<Var> outputs,
              Rule rule) {
    if (begin_entry(op, inputs, as_span(outputs), false)) set_rule(std::move(rule));
  }
  /// The same for a rule that reads the value of its first input only in Backward::rest().
  template <class Rule>
  void record_patient(std::string_view op,
                      std::initializer_list<Var> inputs,
                      std::initializer_list<Var> outputs,
                      Rule rule) {
    if (!begin_entry(op, inputs, as_span(outputs), false)) return;
    entries_.back().patient = true;
    set_rule(std::move(rule));
  }
  /// The same for an op that is cheap to do again: remake() fills the memory of its last output
  /// with the bits it had, from inputs, the other outputs and saved tensors. `kind` says what it
  /// is. A rule that can do so on its way asks Backward::wanted_again().
  template <class Rule, class Remake>
  void record_cheap(Remaking kind,
                    std::string_view op,
                    std::initializer_list<Var> inputs,
                    std::initializer_list<Var> outputs,
                    Rule rule,
                    Remake remake) {
    if (!begin_entry(op, inputs, as_span(outputs), false)) return;
    set_rule(std::move(rule));
    Slot& cheap = slot(*(outputs.end() - 1));
    cheap.maker = static_cast<std::int32_t>(entries_.size()) - 1;
    cheap.remake = closures_.place(std::move(remake));
    cheap.remake_kind = kind;
    cheap.call_remake = [](void* closure) { (*static_cast<Remake*>(closure))(); };
  }
  /// Says that no op to come reads this value. What no rule reads either is given back at once, and
  /// so is what a rule reads if it will be made again.
  void forget(Var v);
  void set_remaking(Remaking most) { remaking_ = most; }
  /// Whether values of this kind are made again.
  bool remakes(Remaking kind) const { return kind <= remaking_; }
  /// The same for an op that may watch leaves inside (recompute): kept whenever the tape records.
  template <class Rule>
  void record_always(std::string_view op,
                     std::initializer_list<Var> inputs,
                     std::initializer_list<Var> outputs,
                     Rule rule) {
    if (begin_entry(op, inputs, as_span(outputs), true)) set_rule(std::move(rule));
  }
  /// Ends an op that has no gradient: throws if one of its inputs wants one.
  void record_without_gradient(std::string_view op,
                               std::initializer_list<Var> inputs,
                               std::initializer_list<Var> outputs);
  /// Ends an op whose outputs are neighbouring columns of one input. Their gradients are then
  /// written straight into the columns of one tensor.
  void record_split(std::string_view op, Var input, std::span<const Var> outputs);

  // --- gradients -----------------------------------------------------------------------------
  struct BackwardSpec {
    bool keep = false;  // keep the values, so that backward can run again on the same tape
  };
  /// Vector-Jacobian product: adds seeds^T d(roots)/d(leaf) to every leaf. A root without a seed
  /// must be a scalar and is seeded with 1. Seeds may have strided rows.
  void backward(std::span<const Var> roots, std::span<const Tensor> seeds, BackwardSpec spec);
  void backward(Var root, BackwardSpec spec) { backward({&root, 1}, {}, spec); }
  void backward(Var root) { backward({&root, 1}, {}, BackwardSpec{}); }

  /// Keeps a value readable after backward, or the gradient that reached it (see grad()).
  void keep_value(Var v);
  void keep_grad(Var v) { slot(v).keep_grad = true; }
  /// The gradient of a value marked with keep_grad, until the next backward or reset.
  Tensor grad(Var v) const;

  // --- scopes --------------------------------------------------------------------------------
  /// Runs `block()` without recording and gives back all its memory except the value it returns.
  template <class Block>
  Var evaluate(Block block) {
    const bool recorded = recording_;
    const std::size_t mark = allocations_.size();
    recording_ = false;
    Var result;
    try {
      result = block();
    } catch (...) {
      recording_ = recorded;
      throw;
    }
    recording_ = recorded;
    keep_only(result, mark);
    return result;
  }
  /// Names the part of the model that records now ("block 3"); the text must outlive the step.
  class Label {
   public:
    Label(Tape& tape, std::string_view name) : tape_(tape), former_(tape.label_) {
      tape.labels_.push_back({name, former_});
      tape.label_ = static_cast<std::int32_t>(tape.labels_.size()) - 1;
    }
    ~Label() { tape_.label_ = former_; }
    Label(const Label&) = delete;
    Label& operator=(const Label&) = delete;

   private:
    Tape& tape_;
    std::int32_t former_;
  };

  /// Forgets everything and makes all memory free: the next step begins.
  void reset(Index step = 0);

  // --- looking -------------------------------------------------------------------------------
  /// In trace mode every op and every rule is searched for NaN and infinity (slow).
  void set_trace(bool on) { trace_ = on; }
  void set_fault(Fault fault) { fault_ = std::move(fault); }
  Index faults_planted() const { return faults_planted_; }
  /// Adds the time of every op and rule to a profile; null: off.
  void set_profile(Profile* profile) { profile_ = profile; }
  const Arena& arena() const { return arena_; }
  Arena& arena() { return arena_; }
  std::size_t entry_count() const { return entries_.size(); }
  bool recording() const { return recording_; }

 private:
  friend class Var;
  friend class Backward;
  template <class Block>
  friend Var recompute(Tape& tape, std::initializer_list<Var> inputs, Block block);

  static constexpr int kMaxInputs = 8;
  static constexpr int kMaxOutputs = 4;

  struct Slot {
    Tensor value;
    Tensor grad;
    DType grad_dtype = DType::f32;
    Leaf* leaf = nullptr;
    std::int32_t grad_buffer = -1;  // which GradBuffer `grad` lies in
    std::int32_t split = -1;        // >= 0: gradient lies in columns of a split's joint gradient
    std::int32_t allocation = -1;   // whose memory `value` is; -1: not the tape's
    Index split_column = 0;
    std::int32_t maker = -1;  // the entry that made it, where it is cheap to make again
    void* remake = nullptr;
    void (*call_remake)(void*) = nullptr;
    Remaking remake_kind = Remaking::norms;
    bool needs_grad = false;
    bool has_grad = false;
    bool unit_seed = false;  // the gradient is the 1 that backward put there, and nothing else
    bool pinned = false;
    bool consumed = false;
    bool keep_grad = false;
    bool aliased = false;  // other slots look at the same memory
  };
  struct Allocation {
    void* block;
    std::size_t bytes;
    bool kept;
    bool live;
  };
  /// Gradient memory. Ops that pass a gradient through let two slots share it; adding to a shared
  /// one copies first.
  struct GradBuffer {
    void* block;
    std::size_t bytes;
    int users;
  };
  struct Split {
    std::int32_t input;
    std::int32_t grad_buffer;
    Tensor joint;
  };
  struct Entry {
    std::string_view op;
    std::array<std::int32_t, kMaxInputs> inputs;
    std::array<std::int32_t, kMaxOutputs> outputs;
    int input_count = 0;
    int output_count = 0;
    std::int32_t label = -1;
    std::size_t first_allocation = 0;
    std::size_t last_allocation = 0;
    bool patient = false;  // recorded with record_patient
    bool spent = false;    // its values were given back
    void* closure = nullptr;
    void (*call)(void*, Backward&) = nullptr;
  };
  /// What a rule left for when a value is there again, and the memory that it reads then.
  struct Rest {
    Entry entry;         // of the rule
    std::int32_t maker;  // the entry that made the value
    void* closure;
    void (*call)(void*, Backward&);
    std::int32_t grad_buffer = -1;
    Tensor memory = {};
  };
  struct LabelRecord {
    std::string_view name;
    std::int32_t parent;
  };
  struct Mark {
    std::size_t slots, entries, allocations, splits;
    ClosureArena::Mark closures;
  };

  const Slot& slot(Var v) const;
  Slot& slot(Var v) { return const_cast<Slot&>(std::as_const(*this).slot(v)); }
  Var add_slot(Slot slot);
  Tensor allocate(Shape shape, DType dtype);
  static std::span<const Var> as_span(std::initializer_list<Var> vars) {
    return {vars.begin(), vars.size()};
  }
  /// Checks and, if a gradient is wanted, opens an entry that still lacks its rule.
  bool begin_entry(std::string_view op,
                   std::initializer_list<Var> inputs,
                   std::span<const Var> outputs,
                   bool always);
  template <class Rule>
  void set_rule(Rule rule) {
    Entry& entry = entries_.back();
    entry.closure = closures_.place(std::move(rule));
    entry.call = [](void* closure, Backward& backward) {
      (*static_cast<Rule*>(closure))(backward);
    };
  }
  /// Whether this value was forgotten and can be made again.
  bool forgotten(const Slot& slot) const;
  /// Makes values again that the rule of an entry reads and that were forgotten.
  void remember(const Entry& entry);
  /// The same for one value.
  void remember(std::int32_t id);
  void take_back(Slot& slot);
  Slot& last_output(const Entry& entry);
  void run_rule(Backward& context, void (*call)(void*, Backward&), void* closure);
  /// What waits for the last output of this entry, whose rule has run.
  void run_rests(std::size_t maker);
  void keep_only(Var result, std::size_t mark);
  void release_allocations(std::size_t first, std::size_t last);
  void walk(std::size_t first, std::size_t last, bool keep);
  void new_grad(Slot& slot);
  void drop_grad(Slot& slot);
  void drop_buffer(std::int32_t buffer);
  std::int32_t new_buffer(Shape shape, DType dtype, Tensor& grad);
  void seed(Var root, const Tensor& with);
  Mark mark() const;
  void rewind(const Mark& mark);
  std::string where(std::int32_t label) const;
  void trace_outputs(const Entry& entry) const;
  void trace_grads(const Entry& entry) const;

  Arena arena_;
  ClosureArena closures_;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::vector<Allocation> allocations_;
  std::vector<GradBuffer> grad_buffers_;
  std::vector<Split> splits_;
  std::vector<Rest> rests_;
  std::vector<LabelRecord> labels_;
  std::size_t recorded_allocations_ = 0;  // allocations that already belong to an entry
  std::int32_t label_ = -1;
  Index step_ = 0;
  std::uint32_t round_ = 0;  // counts resets
  bool recording_ = true;
  bool trace_ = false;
  Remaking remaking_ = Remaking::nothing;
  Profile* profile_ = nullptr;
  Fault fault_;
  Index faults_planted_ = 0;
};

}  // namespace norma
