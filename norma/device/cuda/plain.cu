#include "norma/base/error.h"
#include "norma/device/cuda/launch.cuh"
#include "norma/device/device.h"

namespace norma::device {

namespace {

constexpr int kThreads = 256;

__device__ double wide_load(float value) { return value; }
__device__ double wide_load(double value) { return value; }
__device__ double wide_load(std::int32_t value) { return value; }
__device__ double wide_load(Bf16 value) { return load(value); }

__device__ void wide_store(float& to, double value) { to = static_cast<float>(value); }
__device__ void wide_store(double& to, double value) { to = value; }
__device__ void wide_store(std::int32_t& to, double value) {
  to = static_cast<std::int32_t>(value);
}
__device__ void wide_store(Bf16& to, double value) { store(to, static_cast<float>(value)); }

/// f(element of row r, column c) for every element, whatever the strides.
template <class F>
__device__ void each(Index rows, Index cols, F&& f) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols;
       i += step) {
    f(i / cols, i % cols);
  }
}

template <class T>
__global__ void fill_kernel(T* to, Index rows, Index cols, Index stride, double value) {
  each(rows, cols, [&](Index r, Index c) { wide_store(to[r * stride + c], value); });
}

/// to = keep·to + factor·from; keep 0 does not read.
template <class To, class From>
__global__ void mix_kernel(To* to,
                           Index to_stride,
                           const From* from,
                           Index from_stride,
                           Index rows,
                           Index cols,
                           double keep,
                           double factor) {
  each(rows, cols, [&](Index r, Index c) {
    To& place = to[r * to_stride + c];
    const double value = factor * wide_load(from[r * from_stride + c]);
    wide_store(place, keep == 0 ? value : keep * wide_load(place) + value);
  });
}

template <class T>
__global__ void finite_kernel(const T* from, Index rows, Index cols, Index stride, int* bad) {
  each(rows, cols, [&](Index r, Index c) {
    if (!isfinite(wide_load(from[r * stride + c]))) *bad = 1;  // everybody writes the same
  });
}

template <class F>
void with_type(DType dtype, F&& f) {
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

unsigned grid(const Matrix& m) { return blocks_for(m.rows * m.cols, kThreads); }

void mix(const Matrix& from, const Matrix& to, double keep, double factor) {
  with_type(to.dtype, [&](auto to_zero) {
    with_type(from.dtype, [&](auto from_zero) {
      using To = decltype(to_zero);
      using From = decltype(from_zero);
      launch("combining two tensors",
             grid(to),
             kThreads,
             0,
             mix_kernel<To, From>,
             static_cast<To*>(to.data),
             to.stride,
             static_cast<const From*>(from.data),
             from.stride,
             to.rows,
             to.cols,
             keep,
             factor);
    });
  });
}

}  // namespace

void fill(const Matrix& to, double value) {
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch("filling a tensor",
           grid(to),
           kThreads,
           0,
           fill_kernel<T>,
           static_cast<T*>(to.data),
           to.rows,
           to.cols,
           to.stride,
           value);
  });
}

void put(const Matrix& from, const Matrix& to) { mix(from, to, 0, 1); }
void add_scaled(const Matrix& from, double factor, const Matrix& to) { mix(from, to, 1, factor); }
void scale(const Matrix& to, double factor) { mix(to, to, 0, factor); }

bool all_finite(const Matrix& matrix) {
  int* bad = static_cast<int*>(allocate(sizeof(int)));
  with_type(matrix.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch("looking for what is not finite",
           grid(matrix),
           kThreads,
           0,
           finite_kernel<T>,
           static_cast<const T*>(matrix.data),
           matrix.rows,
           matrix.cols,
           matrix.stride,
           bad);
  });
  int answer = 0;
  copy_out(&answer, bad, sizeof answer);
  release(bad);
  return answer == 0;
}

}  // namespace norma::device
