#include "tests/support/values.h"

#include <utility>

#include "norma/base/rng.h"

namespace norma::test {

void fill_normal(const Tensor& to, std::uint64_t stream, double spread) {
  const RandomKey key{20240607, stream};
  for_each_place(to.shape, [&](Index r, Index c) {
    const auto at = static_cast<std::uint64_t>(r * to.shape.cols() + c);
    set_value(to, r, c, static_cast<double>(static_cast<float>(spread * normal_at(key, at))));
  });
}

OwnedTensor normals(Shape shape, DType dtype, std::uint64_t stream, double spread) {
  OwnedTensor owned(shape, dtype);
  fill_normal(owned.tensor, stream, spread);
  return owned;
}

OwnedTensor numbers(Shape shape, DType dtype, std::initializer_list<double> values) {
  OwnedTensor owned(shape, dtype);
  const double* next = values.begin();
  for_each_place(shape, [&](Index r, Index c) {
    if (next != values.end()) set_value(owned.tensor, r, c, *next++);
  });
  return owned;
}

OwnedTensor copy_of(const Tensor& from, Device device) {
  OwnedTensor owned(from.shape, from.dtype, device);
  convert(from, owned.tensor);
  return owned;
}

OwnedTensor converted(const Tensor& from, DType dtype) {
  OwnedTensor owned(from.shape, dtype);
  convert(from, owned.tensor);
  return owned;
}

OwnedTensor strided(Shape shape, DType dtype, Index padding) {
  OwnedTensor owned(shape.with_last(shape.cols() + padding), dtype);
  owned.tensor = owned.tensor.columns(0, shape.cols());
  return owned;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for_each_place(a.shape, [&](Index r, Index c) { sum += value_at(a, r, c) * value_at(b, r, c); });
  return sum;
}

TestLeaf::TestLeaf(Shape shape, DType dtype, std::uint64_t stream, double spread)
    : TestLeaf(normals(shape, dtype, stream, spread)) {}

TestLeaf::TestLeaf(OwnedTensor values, std::optional<DType> grad_dtype)
    : value_memory_(std::move(values)),
      grad_memory_(value_memory_.tensor.shape,
                   grad_dtype.value_or(value_memory_.tensor.dtype),
                   value_memory_.tensor.device) {
  value = value_memory_.tensor;
  grad = grad_memory_.tensor;
  fill(grad, 99);
}

}  // namespace norma::test
