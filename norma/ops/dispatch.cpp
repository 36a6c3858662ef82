#include "norma/ops/dispatch.h"

#include <atomic>

namespace norma {

namespace {
std::atomic<bool>& reference_flag() {
  static std::atomic<bool> flag{false};
  return flag;
}
}  // namespace

void use_reference_kernels(bool on) { reference_flag() = on; }
bool reference_kernels() { return reference_flag(); }

void refuse_type(std::string_view op, const Tensor& like) {
  throw RequestError(say(op,
                         " computes in f32 or f64 on the CPU and, in builds with CUDA, in f32 or "
                         "bf16 on the GPU; got ",
                         name_of(like.dtype),
                         " on ",
                         name_of(like.device),
                         "."));
}

void require_float(std::string_view op, std::string_view name, Var v) {
  if (!v) throw RequestError(say(op, ": ", name, " is missing."));
  if (v.dtype() == DType::i32) {
    throw RequestError(
        say(op, ": ", name, " must hold floating-point numbers, got i32 ", v.shape().text(), "."));
  }
}

namespace {

void require_type(
    std::string_view op, std::string_view name, Var v, DType wanted, std::string_view why) {
  if (!v || v.dtype() == wanted) return;
  throw RequestError(
      say(op, ": ", name, " must be ", name_of(wanted), why, ", got ", name_of(v.dtype()), "."));
}

}  // namespace

void require_same_type(std::string_view op, Var x, std::string_view name, Var v) {
  require_type(op, name, v, x.dtype(), " like the first input");
}

void require_vector_type(std::string_view op, Var x, std::string_view name, Var v) {
  require_type(op, name, v, wide(x.dtype()), say(" beside ", name_of(x.dtype())));
}

void require_shape(std::string_view op, std::string_view name, Var v, const Shape& wanted) {
  if (v && !(v.shape() == wanted)) throw ShapeError(op, name, wanted.text(), v.shape().text());
}

void require_weight(
    std::string_view op, std::string_view name, Var x, Var weight, Index in, const char* letters) {
  require_float(op, name, weight);
  require_same_type(op, x, name, weight);
  if (weight.shape().rank() == 2 && weight.shape()[1] == in) return;
  throw ShapeError(op, name, say(letters, in), weight.shape().text());
}

void require_onto(std::string_view op, Var x, Var onto, const Shape& result) {
  require_same_type(op, x, "onto", onto);
  require_shape(op, "onto", onto, result);
}

void require_divides(std::string_view op,
                     std::string_view part_name,
                     Index part,
                     std::string_view whole_name,
                     Index whole) {
  if (part < 1 || whole % part != 0) {
    throw RequestError(
        say(op, ": ", part_name, " must divide ", whole_name, " = ", whole, ", got ", part, "."));
  }
}

}  // namespace norma
