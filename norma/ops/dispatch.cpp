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

void require_float(std::string_view op, std::string_view name, Var v) {
  if (!v) throw RequestError(say(op, ": ", name, " is missing."));
  if (v.dtype() == DType::i32) {
    throw RequestError(
        say(op, ": ", name, " must hold floating-point numbers, got i32 ", v.shape().text(), "."));
  }
}

void require_same_type(std::string_view op, Var x, std::string_view name, Var v) {
  if (v && v.dtype() != x.dtype()) {
    throw RequestError(say(op,
                           ": ",
                           name,
                           " must be ",
                           name_of(x.dtype()),
                           " like the first input, "
                           "got ",
                           name_of(v.dtype()),
                           "."));
  }
}

void require_shape(std::string_view op, std::string_view name, Var v, const Shape& wanted) {
  if (v && !(v.shape() == wanted)) throw ShapeError(op, name, wanted.text(), v.shape().text());
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
