#include "norma/base/bf16.h"
#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/patchify.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;

/// f(image_row, image_col, patch, patch_col) for the first of every N neighbours in all `patches`.
template <int N, class F>
__device__ void each_pack(const PatchGrid& grid, Index patches, F&& f) {
  const auto patch = static_cast<unsigned>(grid.patch);
  const auto width = static_cast<unsigned>(grid.channels) * patch * patch;  // of a patch
  const auto across = static_cast<unsigned>(grid.width) / patch;
  const auto down = static_cast<unsigned>(grid.height) / patch;
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  const Index count = patches * (width / N);
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    // Long divisions would take longer than the memory.
    const bool small = count <= 0xFFFFFFFFLL;
    const Index n = small ? static_cast<unsigned>(i) / (width / N) : i / (width / N);
    const auto at = static_cast<unsigned>(i - n * (width / N)) * N;
    const Index band = small ? static_cast<unsigned>(n) / across : n / across;
    const auto left = static_cast<unsigned>(n - band * across) * patch;
    const Index image = small ? static_cast<unsigned>(band) / down : band / down;
    const auto top = static_cast<unsigned>(band - image * down) * patch;
    const unsigned line = at / patch;  // of all channels
    const unsigned channel = line / patch;
    const Index row = (image * grid.channels + channel) * grid.height + top + line % patch;
    f(row, left + at % patch, n, at);
  }
}

template <class T, int N>
__global__ void forward_kernel(PatchifyForward<T> a) {
  each_pack<N>(a.grid, a.patches.rows, [&](Index row, Index col, Index n, unsigned at) {
    store_pack(a.patches.row(n) + at, load_pack<N>(a.images.row(row) + col));
  });
}

template <class T, int N>
__global__ void backward_kernel(PatchifyBackward<T> a) {
  using C = Math<T>;
  each_pack<N>(a.grid, a.dpatches.rows, [&](Index row, Index col, Index n, unsigned at) {
    C values[N];
    read_pack(a.dpatches.row(n) + at, values);
    put_pack(a.dimages.row(row) + col, values, a.dimages_into);
  });
}

/// f(std::integral_constant<int, N>{}) with the widest packs that lines of patches are made of.
template <class T, class A, class B, class F>
void with_lines(const Rows<A>& images, const Rows<B>& patches, const PatchGrid& grid, F&& f) {
  const auto fit = [&](int n) {
    return grid.patch % n == 0 && packs(images, n) && packs(patches, n);
  };
  if (fit(kPack<T>)) return f(std::integral_constant<int, kPack<T>>{});
  if (fit(kPack<T> / 2)) return f(std::integral_constant<int, kPack<T> / 2>{});
  f(std::integral_constant<int, 1>{});
}

}  // namespace

template <class T>
void run(Cuda, const PatchifyForward<T>& a) {
  with_lines<T>(a.images, a.patches, a.grid, [&](auto n) {
    const unsigned blocks = device::blocks_for(a.patches.rows * a.patches.cols / n, kThreads);
    launch("cutting patches", blocks, kThreads, 0, forward_kernel<T, n>, a);
  });
}
template void run(Cuda, const PatchifyForward<float>&);
template void run(Cuda, const PatchifyForward<Bf16>&);

template <class T>
void run(Cuda, const PatchifyBackward<T>& a) {
  with_lines<T>(a.dimages, a.dpatches, a.grid, [&](auto n) {
    const unsigned blocks = device::blocks_for(a.dpatches.rows * a.dpatches.cols / n, kThreads);
    launch("the gradient of patches", blocks, kThreads, 0, backward_kernel<T, n>, a);
  });
}
template void run(Cuda, const PatchifyBackward<float>&);
template void run(Cuda, const PatchifyBackward<Bf16>&);

}  // namespace norma::kernels
