#include "norma/tensor/plain.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

void check_same(const char* what, const Tensor& from, const Tensor& to) {
  if (from.count() != to.count() || from.shape.cols() != to.shape.cols()) {
    throw RequestError(say(what, ": ", from.shape.text(), " does not fit ", to.shape.text(), "."));
  }
}

/// Calls f(T{}) with the C++ type of a dtype; not while planning.
template <class F>
void with_type(DType dtype, F&& f) {
  if (planning()) return;
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::bf16:
      throw Error("bf16 tensors are not supported on the CPU.");
  }
}

// Rows are split over threads only where the work repays the start of a parallel region.
constexpr Index kParallelElements = 1 << 15;

/// Calls f(to_row, from_row, cols) for every row; a contiguous pair is cut into long pieces.
template <class To, class From, class F>
void for_rows(const Tensor& to, const Tensor& from, F&& f) {
  const bool flat = to.contiguous() && from.contiguous();
  constexpr Index kPiece = 1 << 14;
  const Index cols = flat ? kPiece : to.shape.cols();
  const Index rows = flat ? (to.count() + kPiece - 1) / kPiece : to.shape.rows();
  const Index to_stride = flat ? kPiece : to.row_stride;
  const Index from_stride = flat ? kPiece : from.row_stride;
  To* to_data = to.as<To>();
  const From* from_data = from.as<const From>();
#pragma omp parallel for schedule(static) if (to.count() > kParallelElements)
  for (Index r = 0; r < rows; ++r) {
    const Index n = flat ? std::min(cols, to.count() - r * cols) : cols;
    f(to_data + r * to_stride, from_data + r * from_stride, n);
  }
}

}  // namespace

void fill(const Tensor& to, double value) {
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(
        to, to, [&](T* out, const T*, Index n) { std::fill(out, out + n, static_cast<T>(value)); });
  });
}

void copy(const Tensor& from, const Tensor& to) {
  check_same("copy", from, to);
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, from, [](T* out, const T* in, Index n) { std::copy(in, in + n, out); });
  });
}

void add(const Tensor& from, const Tensor& to) {
  check_same("add", from, to);
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, from, [](T* out, const T* in, Index n) {
      for (Index i = 0; i < n; ++i) out[i] += in[i];
    });
  });
}

void add_scaled(const Tensor& from, double factor, const Tensor& to) {
  check_same("add_scaled", from, to);
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, from, [&](T* out, const T* in, Index n) {
      for (Index i = 0; i < n; ++i) out[i] += static_cast<T>(factor) * in[i];
    });
  });
}

void scale(const Tensor& to, double factor) {
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, to, [&](T* out, const T*, Index n) {
      for (Index i = 0; i < n; ++i) out[i] *= static_cast<T>(factor);
    });
  });
}

void convert(const Tensor& from, const Tensor& to) {
  check_same("convert", from, to);
  with_type(to.dtype, [&](auto to_zero) {
    using To = decltype(to_zero);
    with_type(from.dtype, [&](auto from_zero) {
      using From = decltype(from_zero);
      for_rows<To, From>(to, from, [](To* out, const From* in, Index n) {
        for (Index i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
      });
    });
  });
}

bool all_finite(const Tensor& tensor) {
  if (tensor.dtype == DType::i32) return true;
  bool finite = true;
  with_type(tensor.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = tensor.as<const T>();
    for (Index r = 0; r < tensor.shape.rows() && finite; ++r) {
      for (Index c = 0; c < tensor.shape.cols(); ++c) {
        finite = finite && std::isfinite(static_cast<double>(data[r * tensor.row_stride + c]));
      }
    }
  });
  return finite;
}

}  // namespace norma
