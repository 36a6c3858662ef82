#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/direction.h"
#include "norma/kernels/orthogonalize.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
// Of a multiprocessor. Many waves, so that the last one, half empty, weighs little; yet enough work
// for a block to repay the numbers it works out first.
constexpr Index kMostBlocks = 64;
constexpr int kNormThreads = 1024;
constexpr int kWidth = kPack<float>;

/// f(i) for every N-th element, by whichever thread comes to it.
template <int N, class F>
__device__ inline void each_pack(Index count, F&& f) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads * N;
  for (Index i = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * N; i < count;
       i += step) {
    f(i);
  }
}
unsigned grid(Index count, int n) {
  return device::blocks_for(count / n, kThreads, kMostBlocks * device::multiprocessors());
}

template <int N>
__global__ void momentum_kernel(MomentumDirection<float> a) {
  const auto beta = static_cast<float>(a.beta);
  const auto fresh = static_cast<float>(1 - a.beta);
  const auto scale = static_cast<float>(a.rule->grad_scale * factor_at(a.clip));
  const float direct = a.nesterov ? fresh : 0.0f;
  const float through = a.nesterov ? beta : 1.0f;
  each_pack<N>(a.count, [&](Index i) {
    float g[N];
    float m[N];
    float u[N];
    read_pack(a.g + i, g);
    read_pack(a.m + i, m);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float scaled = scale * g[k];
      m[k] = beta * m[k] + fresh * scaled;
      u[k] = direct * scaled + through * m[k];
    }
    write_pack(a.m + i, m);
    write_pack(a.u + i, u);
  });
}

/// What is the same for all elements, worked out by one thread: powers in double are slow.
struct AdamFactors {
  float correct, root;
};
__device__ inline AdamFactors adam_factors(const AdamRule& rule) {
  __shared__ AdamFactors shared;
  if (threadIdx.x == 0) {
    const auto t = static_cast<double>(rule.t);
    shared.correct = static_cast<float>(1 / (1 - pow(rule.beta1, t)));
    shared.root = static_cast<float>(1 / sqrt(1 - pow(rule.beta2, t)));
  }
  __syncthreads();
  return shared;
}

template <int N>
__global__ void adam_kernel(AdamDirection<float> a) {
  const AdamFactors factors = adam_factors(*a.rule);
  const auto scale = static_cast<float>(a.rule->grad_scale * factor_at(a.clip));
  const auto beta1 = static_cast<float>(a.rule->beta1);
  const auto beta2 = static_cast<float>(a.rule->beta2);
  const auto fresh1 = static_cast<float>(1 - a.rule->beta1);
  const auto fresh2 = static_cast<float>(1 - a.rule->beta2);
  const auto eps = static_cast<float>(a.rule->eps);
  each_pack<N>(a.count, [&](Index i) {
    float g[N];
    float m[N];
    float v[N];
    float u[N];
    read_pack(a.g + i, g);
    read_pack(a.m + i, m);
    read_pack(a.v + i, v);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float scaled = scale * g[k];
      m[k] = beta1 * m[k] + fresh1 * scaled;
      v[k] = beta2 * v[k] + fresh2 * scaled * scaled;
      u[k] = factors.correct * m[k] / (sqrtf(v[k]) * factors.root + eps);
    }
    write_pack(a.m + i, m);
    write_pack(a.v + i, v);
    write_pack(a.u + i, u);
  });
}

template <int N>
__global__ void move_kernel(DirectionStep<float> a) {
  const auto keep = static_cast<float>(1 - a.rule->decay);
  const float against = a.cautious ? 1.0f : keep;  // where the step and the weight disagree
  const auto factor = static_cast<float>(a.rule->factor);
  each_pack<N>(a.count, [&](Index i) {
    float w[N];
    float u[N];
    read_pack(a.w + i, w);
    read_pack(a.u + i, u);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      w[k] = (u[k] * w[k] < 0 ? against : keep) * w[k] - factor * u[k];
    }
    write_pack(a.w + i, w);
    if (a.copy != nullptr) write_pack(a.copy + i, w);
  });
}

/// to = from·factor in another type; a null factor is 1.
template <int N, class From, class To>
__global__ void convert_kernel(const From* from, Index count, const double* factor, To* to) {
  const auto by = static_cast<float>(factor_at(factor));
  each_pack<N>(count, [&](Index i) {
    float x[N];
    read_pack(from + i, x);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] *= by;
    write_pack(to + i, x);
  });
}
template <class From, class To>
void convert(const From* from, Index count, const double* factor, To* to) {
  with_pack<float>(packs(from, count, kWidth) && packs(to, count, kWidth), [&](auto n) {
    launch("rounding a direction",
           grid(count, n),
           kThreads,
           0,
           convert_kernel<n, From, To>,
           from,
           count,
           factor,
           to);
  });
}

__global__ void normalize_kernel(float* x, Index count, double* norm) {
  double squares = 0;
  for (Index i = threadIdx.x; i < count; i += kNormThreads) {
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  const double length = sqrt(block_sum<kNormThreads>(squares));
  if (threadIdx.x == 0) *norm = length;
  if (length == 0) return;
  for (Index i = threadIdx.x; i < count; i += kNormThreads) {
    x[i] = static_cast<float>(static_cast<double>(x[i]) / length);
  }
}

}  // namespace

// What orthogonalize.h asks of who computes.
template <class T>
void copy_elements(Cuda, const T* from, Index count, T* to) {
  device::check(cudaMemcpyAsync(to,
                                from,
                                static_cast<std::size_t>(count) * sizeof(T),
                                cudaMemcpyDeviceToDevice,
                                device::stream()),
                "copying a direction");
}
void normalize_in_place(Cuda, float* x, Index count, double* norm) {
  launch("normalizing a vector", 1, kNormThreads, 0, normalize_kernel, x, count, norm);
}

namespace {

/// The same in bf16. Its pieces of scratch memory start where the tensor cores' loads like it; in
/// half the bytes there is room for that and for x itself.
void orthogonalize_in_bf16(const Orthogonalize<float>& a) {
  const Index count = a.rows * a.cols;
  const Index side = std::min(a.rows, a.cols);
  auto* next_piece = reinterpret_cast<std::byte*>(a.scratch);
  const auto piece = [&](Index elements) {
    constexpr std::uintptr_t kAlign = 16;
    const auto address = reinterpret_cast<std::uintptr_t>(next_piece);
    auto* at = next_piece + (kAlign - address % kAlign) % kAlign;
    next_piece = at + static_cast<std::size_t>(elements) * sizeof(Bf16);
    return reinterpret_cast<Bf16*>(at);
  };
  Bf16* x = piece(count);
  Bf16* square = piece(side * side);
  Bf16* polynomial = piece(side * side);
  Bf16* next = piece(count);
  find_inverse_norm(Cuda{}, a);
  convert(a.x, count, a.factor, x);
  const Bf16* result = iterate(Cuda{},
                               NewtonSchulz<Bf16>{.x = x,
                                                  .rows = a.rows,
                                                  .cols = a.cols,
                                                  .square = square,
                                                  .polynomial = polynomial,
                                                  .next = next},
                               a.quintics.data(),
                               a.steps);
  convert(result, count, nullptr, a.x);
}

}  // namespace

template <class T>
void run(Cuda, const MomentumDirection<T>& a) {
  const bool wide =
      packs(a.g, a.count, kWidth) && packs(a.m, a.count, kWidth) && packs(a.u, a.count, kWidth);
  with_pack<T>(wide, [&](auto n) {
    launch("a direction of Muon", grid(a.count, n), kThreads, 0, momentum_kernel<n>, a);
  });
}
template void run(Cuda, const MomentumDirection<float>&);

template <class T>
void run(Cuda, const AdamDirection<T>& a) {
  const bool wide = packs(a.g, a.count, kWidth) && packs(a.m, a.count, kWidth) &&
                    packs(a.v, a.count, kWidth) && packs(a.u, a.count, kWidth);
  with_pack<T>(wide, [&](auto n) {
    launch("a direction of Adam", grid(a.count, n), kThreads, 0, adam_kernel<n>, a);
  });
}
template void run(Cuda, const AdamDirection<float>&);

template <class T>
void run(Cuda, const DirectionStep<T>& a) {
  const bool wide =
      packs(a.w, a.count, kWidth) && packs(a.u, a.count, kWidth) && packs(a.copy, a.count, kWidth);
  with_pack<T>(wide, [&](auto n) {
    launch("moving along a direction", grid(a.count, n), kThreads, 0, move_kernel<n>, a);
  });
}
template void run(Cuda, const DirectionStep<float>&);

template <class T>
void run(Cuda, const Orthogonalize<T>& a) {
  if (a.coarse) {
    orthogonalize_in_bf16(a);
  } else {
    orthogonalize(Cuda{}, a);
  }
}
template void run(Cuda, const Orthogonalize<float>&);

template <class T>
void run(Cuda, const PowerIteration<T>& a) {
  power_iteration(Cuda{}, a);
}
template void run(Cuda, const PowerIteration<float>&);

}  // namespace norma::kernels
