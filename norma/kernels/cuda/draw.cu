#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/draw.h"

namespace norma::kernels {

namespace {

__device__ inline Index own_index() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline Index grid_step() { return static_cast<Index>(gridDim.x) * blockDim.x; }

template <class T>
__global__ void uniform_kernel(UniformDraw<T> a) {
  for (Index i = own_index(); i < a.count; i += grid_step()) write(a.to[i], drawn(a, i));
}
template <class T>
__global__ void normal_kernel(NormalDraw<T> a) {
  for (Index pair = own_index(); 2 * pair < a.count; pair += grid_step()) {
    draw_pair(a, pair, [&](Index i, double value) { write(a.to[i], value); });
  }
}

constexpr int kThreads = 256;

}  // namespace

template <class T>
void run(Cuda, const UniformDraw<T>& a) {
  launch("drawing", device::blocks_for(a.count, kThreads), kThreads, 0, uniform_kernel<T>, a);
}
template <class T>
void run(Cuda, const NormalDraw<T>& a) {
  const Index pairs = (a.count + 1) / 2;
  launch("drawing", device::blocks_for(pairs, kThreads), kThreads, 0, normal_kernel<T>, a);
}
template void run(Cuda, const UniformDraw<float>&);
template void run(Cuda, const UniformDraw<Bf16>&);
template void run(Cuda, const NormalDraw<float>&);
template void run(Cuda, const NormalDraw<Bf16>&);

}  // namespace norma::kernels
