// The small sums around a loss; the rows are in cross_entropy.cu.
#include "norma/kernels/cross_entropy.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

namespace {

// One block: 65536 losses are half a megabyte.
constexpr int kThreads = 1024;

__global__ void tokens_kernel(LossTokens a) {
  int counted = 0;
  if (a.given == 0 && a.targets != nullptr) {
    for (Index r = threadIdx.x; r < a.rows; r += kThreads) counted += a.targets[r] >= 0 ? 1 : 0;
  }
  counted = block_sum<kThreads>(counted);
  if (threadIdx.x != 0) return;
  const double all = a.targets == nullptr ? static_cast<double>(a.rows) : counted;
  *a.tokens = a.given > 0 ? a.given : all;
}

template <class T>
__global__ void sum_kernel(LossSum<T> a) {
  constexpr int kAhead = 8;  // loads under way at once
  double sum = 0;
  for (Index first = threadIdx.x; first < a.rows; first += kAhead * kThreads) {
    double losses[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const Index r = first + k * kThreads;
      losses[k] = r < a.rows ? a.losses[r] : 0;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const Index r = first + k * kThreads;
      sum += losses[k];
      if (r < a.rows) write(a.token_losses[r], losses[k]);
    }
  }
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) write(*a.loss, sum / *a.tokens);
}

}  // namespace

void run(Cuda, const LossTokens& a) {
  launch("counting targets", 1, kThreads, 0, tokens_kernel, a);
}

template <class T>
void run(Cuda, const LossSum<T>& a) {
  launch("adding losses", 1, kThreads, 0, sum_kernel<T>, a);
}
template void run(Cuda, const LossSum<float>&);
template void run(Cuda, const LossSum<Bf16>&);

}  // namespace norma::kernels
