// A tensor is a view: where the numbers lie, their shape, type and device. It owns nothing and is
// trivially copyable. The last dimension is contiguous; consecutive rows are `row_stride` elements
// apart, so a slice of the columns of a wider tensor (q in a fused q, k, v) is a tensor too.
#pragma once

#include <span>

#include "norma/base/types.h"
#include "norma/tensor/shape.h"

namespace norma {

struct Tensor {
  void* data = nullptr;
  Shape shape;
  Index row_stride = 0;
  DType dtype = DType::f32;
  Device device;

  Tensor() = default;
  /// A contiguous view of `data`.
  Tensor(void* where, Shape sizes, DType type, Device on = {});

  explicit operator bool() const { return data != nullptr; }
  Index count() const { return shape.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  bool contiguous() const { return row_stride == shape.cols() || shape.rows() == 1; }

  /// The elements as T; throws when T is not the tensor's type.
  template <class T>
  T* as() const {
    require(kDTypeOf<std::remove_const_t<T>>);
    return static_cast<T*>(data);
  }
  /// The elements of a contiguous tensor as a span.
  template <class T>
  std::span<T> elements() const {
    require_contiguous();
    return {as<T>(), static_cast<std::size_t>(count())};
  }

  /// The same elements of a contiguous tensor in another shape.
  Tensor reshaped(Shape sizes) const;
  /// Columns [begin, begin + width) of every row.
  Tensor columns(Index begin, Index width) const;
  /// Rows [begin, begin + count), as (count, columns).
  Tensor row_range(Index begin, Index count) const;

 private:
  void require(DType wanted) const;
  void require_contiguous() const;
};

/// The value at (row, col) as a double, whatever the type. For tests and messages, not for loops.
double value_at(const Tensor& tensor, Index row, Index col);
void set_value(const Tensor& tensor, Index row, Index col, double value);

}  // namespace norma
