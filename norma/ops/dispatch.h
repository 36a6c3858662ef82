// From tensors to kernels: picks who computes and in which type, and turns tensors into raw rows.
#pragma once

#include "norma/autograd/backward.h"
#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/parallel.h"
#include "norma/kernels/rows.h"
#include "norma/tensor/planning.h"
#include "norma/tensor/tensor.h"

namespace norma {

/// Forces the reference kernels in f32 as well, for comparisons (f64 always uses them).
void use_reference_kernels(bool on);
bool reference_kernels();

/// Throws the RequestError of an op that has no kernel for the type or the device.
[[noreturn]] void refuse_type(std::string_view op, const Tensor& like);

/// Calls f(who, T{}) where `who` runs kernels of element type T for this tensor; nothing is called
/// while planning.
template <class F>
void dispatch(std::string_view op, const Tensor& like, F&& f) {
  if (planning()) return;
  if (like.device.kind == DeviceKind::cuda) {
    if constexpr (device::kBuiltWithCuda) {
      if (like.dtype == DType::f32) return f(kernels::Cuda{}, float{});
      if (like.dtype == DType::bf16) return f(kernels::Cuda{}, Bf16{});
    }
    refuse_type(op, like);
  }
  if (like.dtype == DType::f64) {
    f(kernels::Ref{}, double{});
  } else if (like.dtype == DType::f32) {
    if (reference_kernels()) {
      f(kernels::Ref{}, float{});
    } else {
      f(kernels::Cpu{}, float{});
    }
  } else {
    refuse_type(op, like);
  }
}

template <class T>
kernels::Rows<T> rows(const Tensor& tensor) {
  return {tensor.as<T>(), tensor.shape.rows(), tensor.shape.cols(), tensor.row_stride};
}
template <class T>
kernels::Rows<T> rows(Var v) {
  return rows<T>(v.value());
}
/// No rows when absent.
template <class T>
kernels::Rows<T> rows_or_none(Var v) {
  return v ? rows<T>(v) : kernels::Rows<T>{};
}
/// The elements of a contiguous tensor; null when absent.
template <class T>
T* elements(const Tensor& tensor) {
  return tensor ? tensor.elements<T>().data() : nullptr;
}
template <class T>
T* elements(Var v) {
  return v ? elements<T>(v.value()) : nullptr;
}

/// The gradient rows of an input, or no rows when it is not wanted.
struct WantedRows {
  Tensor grad;
  Into into = Into::set;
  template <class T>
  kernels::Rows<T> rows() const {
    return grad ? norma::rows<T>(grad) : kernels::Rows<T>{};
  }
  template <class T>
  T* data() const {
    return elements<T>(grad);
  }
  explicit operator bool() const { return static_cast<bool>(grad); }
};
inline WantedRows wanted(Backward& b, Var input) {
  if (!b.wants(input)) return {};
  const Backward::Target target = b.into(input);
  return {target.grad, target.into};
}

/// Partial sums over chunks of a tensor's rows: as many as a kernel needs for `width` columns, or
/// one element.
inline Shape partial_shape(const Tensor& of, Index width, bool needed) {
  if (!needed) return {1};
  const bool gpu = of.device.kind == DeviceKind::cuda;
  const Index most = gpu ? kernels::RowChunks::kMostOnGpu : kernels::RowChunks::kMost;
  return {kernels::RowChunks(of.shape.rows(), most).count, width};
}

// Checks that name the op, what it wanted and what it got.
void require_float(std::string_view op, std::string_view name, Var v);
void require_same_type(std::string_view op, Var x, std::string_view name, Var v);
/// Gains, biases and scales are kept wide: f32 beside bf16.
void require_vector_type(std::string_view op, Var x, std::string_view name, Var v);
void require_shape(std::string_view op, std::string_view name, Var v, const Shape& wanted);
/// A matrix (out, in) of x's type; `letters` says its shape up to the number.
void require_weight(
    std::string_view op, std::string_view name, Var x, Var weight, Index in, const char* letters);
/// What the result of a product is added to, or absent.
void require_onto(std::string_view op, Var x, Var onto, const Shape& result);
void require_divides(std::string_view op,
                     std::string_view part_name,
                     Index part,
                     std::string_view whole_name,
                     Index whole);

}  // namespace norma
