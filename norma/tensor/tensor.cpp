#include "norma/tensor/tensor.h"

#include "norma/base/error.h"
#include "norma/base/text.h"

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

double value_at(const Tensor& tensor, Index row, Index col) {
  const Index at = row * tensor.row_stride + col;
  switch (tensor.dtype) {
    case DType::f32:
      return static_cast<double>(tensor.as<const float>()[at]);
    case DType::f64:
      return tensor.as<const double>()[at];
    case DType::i32:
      return static_cast<double>(tensor.as<const std::int32_t>()[at]);
    case DType::bf16:
      break;
  }
  throw Error("reading single bf16 values is not supported on the CPU.");
}

void set_value(const Tensor& tensor, Index row, Index col, double value) {
  const Index at = row * tensor.row_stride + col;
  switch (tensor.dtype) {
    case DType::f32:
      tensor.as<float>()[at] = static_cast<float>(value);
      return;
    case DType::f64:
      tensor.as<double>()[at] = value;
      return;
    case DType::i32:
      tensor.as<std::int32_t>()[at] = static_cast<std::int32_t>(value);
      return;
    case DType::bf16:
      break;
  }
  throw Error("writing single bf16 values is not supported on the CPU.");
}

}  // namespace norma
