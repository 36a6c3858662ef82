#include "norma/base/bf16.h"
#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/patchify.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 128;  // one block takes one patch

/// f(image_row, image_col, patch_col) for the first of every N neighbours of this block's patch.
template <int N, class F>
__device__ void each_pack(const PatchGrid& grid, F&& f) {
  const Index n = blockIdx.x;
  const Index across = grid.width / grid.patch;
  const Index image = n / grid.per_image();
  const Index down = n % grid.per_image() / across;
  const Index left = n % across * grid.patch;
  const auto patch = static_cast<int>(grid.patch);
  const int count = static_cast<int>(grid.channels) * patch * patch;
  for (int at = static_cast<int>(threadIdx.x) * N; at < count; at += kThreads * N) {
    const int line = at / patch;  // of all channels
    const int channel = line / patch;
    const Index row = (image * grid.channels + channel) * grid.height + down * patch + line % patch;
    f(row, left + at % patch, at);
  }
}

template <class T, int N>
__global__ void forward_kernel(PatchifyForward<T> a) {
  each_pack<N>(a.grid, [&](Index row, Index col, int at) {
    store_pack(a.patches.row(blockIdx.x) + at, load_pack<N>(a.images.row(row) + col));
  });
}

template <class T, int N>
__global__ void backward_kernel(PatchifyBackward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.grid, [&](Index row, Index col, int at) {
    C values[N];
    read_pack(a.dpatches.row(blockIdx.x) + at, values);
    put_pack(a.dimages.row(row) + col, values, a.dimages_into);
  });
}

/// Whether the lines of patches can be taken in packs on both sides.
template <class A, class B>
bool lines_pack(const Rows<A>& images, const Rows<B>& patches, const PatchGrid& grid, int n) {
  return grid.patch % n == 0 && packs(images, n) && packs(patches, n);
}

}  // namespace

template <class T>
void run(Cuda, const PatchifyForward<T>& a) {
  with_pack<T>(lines_pack(a.images, a.patches, a.grid, kPack<T>), [&](auto n) {
    const auto blocks = static_cast<unsigned>(a.patches.rows);
    launch("cutting patches", blocks, kThreads, 0, forward_kernel<T, n>, a);
  });
}
template void run(Cuda, const PatchifyForward<float>&);
template void run(Cuda, const PatchifyForward<Bf16>&);

template <class T>
void run(Cuda, const PatchifyBackward<T>& a) {
  with_pack<T>(lines_pack(a.dimages, a.dpatches, a.grid, kPack<T>), [&](auto n) {
    const auto blocks = static_cast<unsigned>(a.dpatches.rows);
    launch("the gradient of patches", blocks, kThreads, 0, backward_kernel<T, n>, a);
  });
}
template void run(Cuda, const PatchifyBackward<float>&);
template void run(Cuda, const PatchifyBackward<Bf16>&);

}  // namespace norma::kernels
