#include "norma/tensor/plain.h"

#include <algorithm>
#include <cmath>

#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/tensor/buffer.h"
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
      return f(Bf16{});
  }
}

// bf16 is a type to store in: on the CPU it is filled, copied and converted, and no more.
double as_double(Bf16 value) { return static_cast<double>(to_float(value)); }
template <class T>
double as_double(T value) {
  return static_cast<double>(value);
}
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, Bf16>) {
    return to_bf16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<From, Bf16>) {
    return static_cast<To>(to_float(value));
  } else {
    return static_cast<To>(value);
  }
}
template <class F>
void with_number_type(const char* what, DType dtype, F&& f) {
  with_type(dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), Bf16>) {
      throw Error(say(what, ": bf16 has no arithmetic on the CPU."));
    } else {
      f(zero);
    }
  });
}

bool on_gpu(const Tensor& tensor) { return tensor.device.kind == DeviceKind::cuda; }
device::Matrix matrix(const Tensor& tensor) {
  return {tensor.data, tensor.dtype, tensor.shape.rows(), tensor.shape.cols(), tensor.row_stride};
}

/// From the GPU into contiguous memory of the CPU of the same type.
void bring_home(const Tensor& from, const Tensor& home) {
  if (from.contiguous()) return device::copy_out(home.data, from.data, home.bytes());
  const OwnedTensor packed(from.shape, from.dtype, from.device);
  device::put(matrix(from), matrix(packed.tensor));
  device::copy_out(home.data, packed.tensor.data, home.bytes());
}
void send(const Tensor& from, const Tensor& to) {
  if (from.dtype == to.dtype && from.contiguous() && to.contiguous()) {
    return device::copy_in(to.data, from.data, from.bytes());
  }
  const OwnedTensor packed(from.shape, from.dtype);
  convert(from, packed.tensor);
  const OwnedTensor there(from.shape, from.dtype, to.device);
  device::copy_in(there.tensor.data, packed.tensor.data, packed.tensor.bytes());
  device::put(matrix(there.tensor), matrix(to));
  device::synchronize();  // before the memory in between goes back
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
  if (planning()) return;
  if (on_gpu(to)) return device::fill(matrix(to), value);
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(
        to, to, [&](T* out, const T*, Index n) { std::fill(out, out + n, converted<T>(value)); });
  });
}

void copy(const Tensor& from, const Tensor& to) {
  check_same("copy", from, to);
  if (from.dtype != to.dtype) {
    throw RequestError(
        say("copy: ", name_of(from.dtype), " does not fit ", name_of(to.dtype), "."));
  }
  convert(from, to);
}

void add(const Tensor& from, const Tensor& to) {
  check_same("add", from, to);
  if (planning()) return;
  if (on_gpu(to)) return device::add_scaled(matrix(from), 1, matrix(to));
  with_number_type("add", to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, from, [](T* out, const T* in, Index n) {
      for (Index i = 0; i < n; ++i) out[i] += in[i];
    });
  });
}

void add_scaled(const Tensor& from, double factor, const Tensor& to) {
  check_same("add_scaled", from, to);
  if (planning()) return;
  if (on_gpu(to)) return device::add_scaled(matrix(from), factor, matrix(to));
  with_number_type("add_scaled", to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, from, [&](T* out, const T* in, Index n) {
      for (Index i = 0; i < n; ++i) out[i] += static_cast<T>(factor) * in[i];
    });
  });
}

void scale(const Tensor& to, double factor) {
  if (planning()) return;
  if (on_gpu(to)) return device::scale(matrix(to), factor);
  with_number_type("scale", to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_rows<T, T>(to, to, [&](T* out, const T*, Index n) {
      for (Index i = 0; i < n; ++i) out[i] *= static_cast<T>(factor);
    });
  });
}

void convert(const Tensor& from, const Tensor& to) {
  check_same("convert", from, to);
  if (planning()) return;
  if (on_gpu(from) && on_gpu(to)) return device::put(matrix(from), matrix(to));
  if (on_gpu(from) && from.dtype == to.dtype && to.contiguous()) return bring_home(from, to);
  if (on_gpu(from)) return convert(host_copy(from).tensor, to);
  if (on_gpu(to)) return send(from, to);
  with_type(to.dtype, [&](auto to_zero) {
    using To = decltype(to_zero);
    with_type(from.dtype, [&](auto from_zero) {
      using From = decltype(from_zero);
      for_rows<To, From>(to, from, [](To* out, const From* in, Index n) {
        for (Index i = 0; i < n; ++i) out[i] = converted<To>(in[i]);
      });
    });
  });
}

OwnedTensor host_copy(const Tensor& from) {
  OwnedTensor home(from.shape, from.dtype);
  if (planning()) return home;
  if (on_gpu(from)) {
    bring_home(from, home.tensor);
  } else {
    copy(from, home.tensor);
  }
  return home;
}

bool all_finite(const Tensor& tensor) {
  if (planning() || tensor.dtype == DType::i32) return true;
  if (on_gpu(tensor)) return device::all_finite(matrix(tensor));
  bool finite = true;
  with_type(tensor.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* data = tensor.as<const T>();
    for (Index r = 0; r < tensor.shape.rows() && finite; ++r) {
      for (Index c = 0; c < tensor.shape.cols(); ++c) {
        finite = finite && std::isfinite(as_double(data[r * tensor.row_stride + c]));
      }
    }
  });
  return finite;
}

}  // namespace norma
