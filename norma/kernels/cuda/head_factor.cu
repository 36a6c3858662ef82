#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

namespace {

constexpr int kThreads = 128;

template <class T>
__device__ double temperature_of(const HeadFactorForward<T>& a, Index h) {
  if (a.temperature == nullptr) return 1;
  const double stored = read<double>(a.temperature[a.temperatures == 1 ? 0 : h]);
  return a.exponential ? exp(min(stored, kLargestLogTemperature)) : stored;
}
template <class T>
__device__ double log_scale_of(const HeadFactorForward<T>& a, Index h) {
  return a.log_scale == nullptr ? 1 : read<double>(a.log_scale[h]);
}

template <class T>
__global__ void forward_kernel(HeadFactorForward<T> a) {
  const Index h = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (h < a.heads) write(a.factor[h], a.scale * temperature_of(a, h) * log_scale_of(a, h));
}

/// One block: there are few heads, and a temperature they share sums over all of them.
template <class T>
__global__ void backward_kernel(HeadFactorBackward<T> a) {
  const HeadFactorForward<T>& f = a.forward;
  double shared_temperature = 0;
  for (Index h = threadIdx.x; h < f.heads; h += kThreads) {
    double dfactor = 0;
    for (Index b = 0; b < a.batch; ++b) dfactor += read<double>(a.dfactor[b * f.heads + h]);
    const double temperature = temperature_of(f, h);
    if (a.dlog_scale != nullptr) {
      put(a.dlog_scale[h], dfactor * f.scale * temperature, a.dlog_scale_into);
    }
    if (a.dtemperature == nullptr) continue;
    const double stored = read<double>(f.temperature[f.temperatures == 1 ? 0 : h]);
    // A clamped temperature does not move the factor.
    const double slope = !f.exponential ? 1 : stored < kLargestLogTemperature ? temperature : 0;
    const double value = dfactor * f.scale * log_scale_of(f, h) * slope;
    if (f.temperatures == 1) {
      shared_temperature += value;
    } else {
      put(a.dtemperature[h], value, a.dtemperature_into);
    }
  }
  if (a.dtemperature == nullptr || f.temperatures != 1) return;
  shared_temperature = block_sum<kThreads>(shared_temperature);
  if (threadIdx.x == 0) put(a.dtemperature[0], shared_temperature, a.dtemperature_into);
}

}  // namespace

template <class T>
void run(Cuda, const HeadFactorForward<T>& a) {
  launch("head factors", device::blocks_for(a.heads, kThreads), kThreads, 0, forward_kernel<T>, a);
}
template void run(Cuda, const HeadFactorForward<float>&);
template void run(Cuda, const HeadFactorForward<Bf16>&);

template <class T>
void run(Cuda, const HeadFactorBackward<T>& a) {
  launch("the gradient of head factors", 1, kThreads, 0, backward_kernel<T>, a);
}
template void run(Cuda, const HeadFactorBackward<float>&);
template void run(Cuda, const HeadFactorBackward<Bf16>&);

}  // namespace norma::kernels
