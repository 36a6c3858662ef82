#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/element_rules.h"
#include "norma/kernels/optimizer_step.h"
#include "norma/kernels/sum_work.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
// Of a multiprocessor. Many waves, so that the last one, half empty, weighs little; yet enough work
// for a block to repay the numbers it works out first.
constexpr Index kMostBlocks = 64;
constexpr int kSumThreads = 1024;

template <class T, int N>
__global__ void squared_norm_kernel(SquaredNorm<T> a) {
  const Index begin = static_cast<Index>(blockIdx.x) * kNormPiece;
  const Index end = begin + kNormPiece < a.count ? begin + kNormPiece : a.count;
  double sum = 0;
  for (Index i = begin + static_cast<Index>(threadIdx.x) * N; i < end; i += kThreads * N) {
    double g[N];
    read_pack(a.g + i, g);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += g[k] * g[k];
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = sum;
}

/// One block: every thread adds its share in order.
template <class Work>
__global__ void sum_then_kernel(SumThen<Work> a) {
  double sum = 0;
  for (Index i = threadIdx.x; i < a.count; i += kSumThreads) sum += a.partials[i];
  sum = block_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) a.work(sum);
}

template <class T, int N>
__global__ void scale_kernel(ScaleBy<T> a) {
  const auto factor = static_cast<float>(*a.factor);
  if (factor == 1.0f && a.copy == nullptr) return;
  const Index step = static_cast<Index>(gridDim.x) * kThreads * N;
  for (Index i = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * N; i < a.count;
       i += step) {
    float x[N];
    read_pack(a.x + i, x);
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] *= factor;
    write_pack(a.x + i, x);
    if (a.copy != nullptr) write_pack(a.copy + i, x);
  }
}

template <class T>
__global__ void count_flags_kernel(CountFlags<T> a) {
  double sum = 0;
  for (Index i = threadIdx.x; i < a.count; i += kSumThreads) sum += a.flags[i] == T{1} ? 1 : 0;
  sum = block_sum<kSumThreads>(sum);
  if (threadIdx.x == 0) *a.total += sum;
}

/// Counts of pieces of kNormPiece.
__global__ void agreement_kernel(SgdAgreement<float> a) {
  const SgdElement<true> element(*a.rule, factor_at(a.clip));
  const Index begin = static_cast<Index>(blockIdx.x) * kNormPiece;
  const Index end = begin + kNormPiece < a.count ? begin + kNormPiece : a.count;
  double agreeing = 0;
  for (Index i = begin + threadIdx.x; i < end; i += kThreads) {
    const float g = element.gradient(a.w[i], a.g[i]);
    float b = a.b == nullptr ? 0.0f : a.b[i];
    agreeing += element.direction(g, b) * g > 0 ? 1 : 0;
  }
  agreeing = block_sum<kThreads>(agreeing);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = agreeing;
}

}  // namespace

template <class T>
void run(Cuda, const SquaredNorm<T>& a) {
  with_pack<T>(packs(a.g, a.count, kPack<T>), [&](auto n) {
    launch("the norm of a span",
           static_cast<unsigned>(norm_pieces(a.count)),
           kThreads,
           0,
           squared_norm_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const SquaredNorm<float>&);

template <class Work>
void run(Cuda, const SumThen<Work>& a) {
  launch("what follows from a norm", 1, kSumThreads, 0, sum_then_kernel<Work>, a);
}
template void run(Cuda, const SumThen<StoreNorm>&);
template void run(Cuda, const SumThen<GlobalClip>&);
template void run(Cuda, const SumThen<TensorClip>&);
template void run(Cuda, const SumThen<CautionFactor>&);
template void run(Cuda, const SumThen<TrustRatio>&);
template void run(Cuda, const SumThen<InverseNorm>&);
template void run(Cuda, const SumThen<RestoreNorm>&);
template void run(Cuda, const SumThen<StoreRadius<float>>&);
template void run(Cuda, const SumThen<RestoreRadius<float>>&);
template void run(Cuda, const SumThen<MoveByRadius<float>>&);

template <class T>
void run(Cuda, const ScaleBy<T>& a) {
  with_pack<T>(packs(a.x, a.count, kPack<T>) && packs(a.copy, a.count, kPack<T>), [&](auto n) {
    launch("scaling a span",
           device::blocks_for(a.count / n, kThreads, kMostBlocks * device::multiprocessors()),
           kThreads,
           0,
           scale_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const ScaleBy<float>&);

template <class T>
void run(Cuda, const CountFlags<T>& a) {
  launch("counting what was clipped", 1, kSumThreads, 0, count_flags_kernel<T>, a);
}
template void run(Cuda, const CountFlags<float>&);

template <class T>
void run(Cuda, const SgdAgreement<T>& a) {
  launch("counting what agrees",
         static_cast<unsigned>(norm_pieces(a.count)),
         kThreads,
         0,
         agreement_kernel,
         a);
}
template void run(Cuda, const SgdAgreement<float>&);

}  // namespace norma::kernels
