// A Var is a handle on a value that a tape knows: cheap to copy, valid until the tape is reset.
// A default Var means "absent" (a norm without gain, a linear map without bias).
#pragma once

#include <cstdint>

#include "norma/tensor/tensor.h"

namespace norma {

class Tape;

class Var {
 public:
  Var() = default;

  explicit operator bool() const { return tape_ != nullptr; }
  Tape& tape() const { return *tape_; }
  Tensor value() const;  // throws when the memory was given back or taken over in place
  Shape shape() const;
  DType dtype() const;
  DType grad_dtype() const;  // of the gradients that arrive here
  bool needs_grad() const;
  bool operator==(const Var&) const = default;
  /// The same value, through which no gradient flows.
  Var detach() const;

 private:
  friend class Tape;
  friend class Backward;
  Var(Tape* tape, std::int32_t id, std::uint32_t round) : tape_(tape), id_(id), round_(round) {}
  Tape* tape_ = nullptr;
  std::int32_t id_ = -1;
  std::uint32_t round_ = 0;  // which reset of the tape it belongs to
};

/// Where a value and its gradient live when they outlive the step: a parameter, or an input whose
/// gradient is wanted. The owner keeps it alive and in place while a tape refers to it.
struct Leaf {
  Tensor value;
  Tensor grad;             // same shape; same type, or f32 for a bf16 value
  bool needs_grad = true;  // false: frozen
  bool fresh = true;       // true: the next contribution replaces, later ones add
};

}  // namespace norma
