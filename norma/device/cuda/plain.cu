#include <type_traits>

#include "norma/base/error.h"
#include "norma/device/cuda/launch.cuh"
#include "norma/device/device.h"

namespace norma::device {

namespace {

constexpr int kThreads = 256;

// What is combined is computed in double, except beside bf16, where float has digits to spare.
template <class T>
struct Wider {
  using Type = double;
};
template <>
struct Wider<Bf16> {
  using Type = float;
};

template <class C, class T>
__device__ C wide_load(T value) {
  return static_cast<C>(value);
}
template <class C>
__device__ C wide_load(Bf16 value) {
  return static_cast<C>(load(value));
}
template <class T, class C>
__device__ void wide_store(T& to, C value) {
  to = static_cast<T>(value);
}
template <class C>
__device__ void wide_store(Bf16& to, C value) {
  store(to, static_cast<float>(value));
}

/// f(row, column) for every N-th element, whatever the strides; N divides cols.
template <int N, class F>
__device__ void each(Index rows, Index cols, F&& f) {
  const Index packs = rows * cols / N;
  const Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  if (packs <= 0xFFFFFFFFLL) {  // a long division costs as much as the access to memory
    const auto wide = static_cast<unsigned>(cols / N);
    for (Index i = first; i < packs; i += step) {
      const auto at = static_cast<unsigned>(i);
      f(static_cast<Index>(at / wide), static_cast<Index>(at % wide) * N);
    }
  } else {
    for (Index i = first; i < packs; i += step) f(i / (cols / N), i % (cols / N) * N);
  }
}

template <class T, int N>
struct alignas(sizeof(T) * N) Few {
  T at[N];
};

template <class T, int N>
__global__ void fill_kernel(T* to, Index rows, Index cols, Index stride, double value) {
  Few<T, N> few;
#pragma unroll
  for (int k = 0; k < N; ++k) wide_store(few.at[k], value);
  each<N>(rows, cols, [&](Index r, Index c) {
    *reinterpret_cast<Few<T, N>*>(to + r * stride + c) = few;
  });
}

/// to = keep·to + factor·from; keep 0 does not read.
template <class To, class From, int N>
__global__ void mix_kernel(To* to,
                           Index to_stride,
                           const From* from,
                           Index from_stride,
                           Index rows,
                           Index cols,
                           double keep,
                           double factor) {
  using C = typename Wider<To>::Type;
  const auto kept = static_cast<C>(keep);
  const auto times = static_cast<C>(factor);
  each<N>(rows, cols, [&](Index r, Index c) {
    auto* const place = reinterpret_cast<Few<To, N>*>(to + r * to_stride + c);
    const auto in = *reinterpret_cast<const Few<From, N>*>(from + r * from_stride + c);
    Few<To, N> out;
    if (keep == 0) {
#pragma unroll
      for (int k = 0; k < N; ++k) wide_store(out.at[k], times * wide_load<C>(in.at[k]));
    } else {
      out = *place;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        wide_store(out.at[k], kept * wide_load<C>(out.at[k]) + times * wide_load<C>(in.at[k]));
      }
    }
    *place = out;
  });
}

template <class T>
__global__ void finite_kernel(const T* from, Index rows, Index cols, Index stride, int* bad) {
  each<1>(rows, cols, [&](Index r, Index c) {
    if (!isfinite(wide_load<double>(from[r * stride + c]))) *bad = 1;  // everybody writes the same
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

/// Elements of one 16-byte access.
template <class T>
constexpr int kFew = 16 / static_cast<int>(sizeof(T));

/// Whether the rows can be taken `few` elements at a time.
bool splits(const Matrix& m, int few) {
  return m.cols % few == 0 && m.stride % few == 0 &&
         reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0;
}
/// As one row, where nothing lies between the rows.
Matrix flat(const Matrix& m) { return {m.data, m.dtype, 1, m.rows * m.cols, m.rows * m.cols}; }
bool contiguous(const Matrix& m) { return m.rows <= 1 || m.stride == m.cols; }

unsigned grid(const Matrix& m, int few) { return blocks_for(m.rows * m.cols / few, kThreads); }

template <class To, class From, int N>
void start_mix(const Matrix& from, const Matrix& to, double keep, double factor) {
  launch("combining two tensors",
         grid(to, N),
         kThreads,
         0,
         mix_kernel<To, From, N>,
         static_cast<To*>(to.data),
         to.stride,
         static_cast<const From*>(from.data),
         from.stride,
         to.rows,
         to.cols,
         keep,
         factor);
}

void mix(Matrix from, Matrix to, double keep, double factor) {
  if (contiguous(from) && contiguous(to)) {
    from = flat(from);
    to = flat(to);
  }
  with_type(to.dtype, [&](auto to_zero) {
    with_type(from.dtype, [&](auto from_zero) {
      using To = decltype(to_zero);
      using From = decltype(from_zero);
      if constexpr (std::is_same_v<To, From>) {
        if (splits(from, kFew<To>) && splits(to, kFew<To>)) {
          return start_mix<To, From, kFew<To>>(from, to, keep, factor);
        }
      }
      start_mix<To, From, 1>(from, to, keep, factor);
    });
  });
}

}  // namespace

void fill(const Matrix& matrix, double value) {
  const Matrix to = contiguous(matrix) ? flat(matrix) : matrix;
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool few = splits(to, kFew<T>);
    launch("filling a tensor",
           grid(to, few ? kFew<T> : 1),
           kThreads,
           0,
           few ? fill_kernel<T, kFew<T>> : fill_kernel<T, 1>,
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
           grid(matrix, 1),
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
