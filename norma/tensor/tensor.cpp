#include "norma/tensor/tensor.h"

#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"

namespace norma {

Tensor::Tensor(void* where, Shape sizes, DType type, Device on)
    : data(where), shape(sizes), row_stride(sizes.cols()), dtype(type), device(on) {}

void Tensor::require(DType wanted) const {
  if (wanted != dtype) {
    throw RequestError(say("a tensor of type ",
                           name_of(wanted),
                           " was wanted, got ",
                           name_of(dtype),
                           " ",
                           shape.text(),
                           "."));
  }
}

void Tensor::require_contiguous() const {
  if (!contiguous()) {
    throw RequestError(say("a contiguous tensor was wanted, got ",
                           shape.text(),
                           " with rows ",
                           row_stride,
                           " elements apart."));
  }
}

Tensor Tensor::reshaped(Shape sizes) const {
  require_contiguous();
  if (sizes.count() != count()) {
    throw RequestError(say("reshape: ",
                           shape.text(),
                           " has ",
                           count(),
                           " elements, ",
                           sizes.text(),
                           " has ",
                           sizes.count(),
                           "."));
  }
  return Tensor(data, sizes, dtype, device);
}

Tensor Tensor::columns(Index begin, Index width) const {
  if (begin < 0 || width < 1 || begin + width > shape.cols()) {
    throw RequestError(
        say("columns [", begin, ", ", begin + width, ") do not lie inside ", shape.text(), "."));
  }
  Tensor part = *this;
  part.shape = shape.with_last(width);
  part.data = static_cast<std::byte*>(data) + static_cast<std::size_t>(begin) * size_of(dtype);
  return part;
}

Tensor Tensor::row_range(Index begin, Index count) const {
  Tensor part = *this;
  part.data =
      static_cast<std::byte*>(data) + static_cast<std::size_t>(begin * row_stride) * size_of(dtype);
  part.shape = {count, shape.cols()};
  return part;
}

namespace {

/// Calls f(one element of type T).
template <class F>
void with_element(DType dtype, void* element, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(*static_cast<float*>(element));
    case DType::f64:
      return f(*static_cast<double*>(element));
    case DType::i32:
      return f(*static_cast<std::int32_t*>(element));
    case DType::bf16:
      return f(*static_cast<Bf16*>(element));
  }
}

void* address_of(const Tensor& tensor, Index row, Index col) {
  return static_cast<std::byte*>(tensor.data) +
         static_cast<std::size_t>(row * tensor.row_stride + col) * size_of(tensor.dtype);
}

bool on_gpu(const Tensor& tensor) { return tensor.device.kind == DeviceKind::cuda; }

double as_double(Bf16 element) { return static_cast<double>(to_float(element)); }
template <class T>
double as_double(T element) {
  return static_cast<double>(element);
}
void assign(Bf16& element, double value) { element = to_bf16(static_cast<float>(value)); }
template <class T>
void assign(T& element, double value) {
  element = static_cast<T>(value);
}

}  // namespace

double value_at(const Tensor& tensor, Index row, Index col) {
  void* element = address_of(tensor, row, col);
  double copied = 0;  // large enough for any type
  if (on_gpu(tensor)) {
    device::copy_out(&copied, element, size_of(tensor.dtype));
    element = &copied;
  }
  double value = 0;
  with_element(tensor.dtype, element, [&](auto& at) { value = as_double(at); });
  return value;
}

void set_value(const Tensor& tensor, Index row, Index col, double value) {
  void* element = address_of(tensor, row, col);
  double copied = 0;
  with_element(
      tensor.dtype, on_gpu(tensor) ? &copied : element, [&](auto& at) { assign(at, value); });
  if (on_gpu(tensor)) device::copy_in(element, &copied, size_of(tensor.dtype));
}

}  // namespace norma
