// Tensors and leaves with memory, filled with random or chosen numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "norma/autograd/var.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma::test {

/// f(row, col) for every element.
template <class F>
void for_each_place(const Shape& shape, F&& f) {
  for (Index r = 0; r < shape.rows(); ++r) {
    for (Index c = 0; c < shape.cols(); ++c) f(r, c);
  }
}

/// Normals of a stream, rounded to f32 so that every type holds the same values.
void fill_normal(const Tensor& to, std::uint64_t stream, double spread = 1);
OwnedTensor normals(Shape shape, DType dtype, std::uint64_t stream, double spread = 1);
/// The numbers in order, row by row.
OwnedTensor numbers(Shape shape, DType dtype, std::initializer_list<double> values);
OwnedTensor copy_of(const Tensor& from, Device device = {});
/// The same numbers in another type, on the CPU.
OwnedTensor converted(const Tensor& from, DType dtype);
/// f(row, col) everywhere, on a device too.
template <class F>
OwnedTensor made(Shape shape, DType dtype, Device device, F&& f) {
  OwnedTensor here(shape, DType::f64);
  for_each_place(shape, [&](Index r, Index c) { set_value(here.tensor, r, c, f(r, c)); });
  OwnedTensor there(shape, dtype, device);
  convert(here.tensor, there.tensor);
  return there;
}
/// A tensor whose rows lie `padding` elements further apart than they are wide.
OwnedTensor strided(Shape shape, DType dtype, Index padding);

/// Σ a·b over all elements, in double.
double dot(const Tensor& a, const Tensor& b);

/// A leaf with the memory of its value and gradient. The value is normal, the gradient 99 until
/// something replaces it.
class TestLeaf : public Leaf {
 public:
  TestLeaf(Shape shape, DType dtype, std::uint64_t stream, double spread = 1);
  /// The gradient is of the same type, or of a wider one, as that of weights in bf16.
  explicit TestLeaf(OwnedTensor values, std::optional<DType> grad_dtype = {});
  TestLeaf(const TestLeaf&) = delete;
  TestLeaf& operator=(const TestLeaf&) = delete;
  TestLeaf(TestLeaf&&) = default;
  TestLeaf& operator=(TestLeaf&&) = default;
  ~TestLeaf() = default;

 private:
  OwnedTensor value_memory_;
  OwnedTensor grad_memory_;
};

}  // namespace norma::test
