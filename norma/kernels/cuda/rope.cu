#include <algorithm>

#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/rope.h"

namespace norma::kernels {

namespace {

/// N pairs of one head: two packs. Interleaved pairs lie one after the other in both; else the
/// first entries are in one pack and the second ones in the other.
template <bool kHalf, int N, class C>
struct Pairs {
  C lower[N];
  C upper[N];
  __device__ C& first(int k) {
    return kHalf ? lower[k] : 2 * k < N ? lower[2 * k] : upper[2 * k - N];
  }
  __device__ C& second(int k) {
    return kHalf ? upper[k] : 2 * k + 1 < N ? lower[2 * k + 1] : upper[2 * k + 1 - N];
  }
};

// A thread keeps its pairs and its position in the sequence, hence their angles, and goes through
// the sequences.
template <class T, int N, bool kHalf>
__global__ void rope_kernel(Rope<T> a) {
  using C = Math<T>;
  const RopeFactors<T>& f = a.factors;
  const Index packs_per_head = f.pairs / N;
  const Index unit = static_cast<Index>(blockIdx.x) * kColumnLanes + threadIdx.x;
  const Index j = unit % packs_per_head * N;
  const Index head = unit / packs_per_head * 2 * f.pairs;
  if (head >= a.x.cols) return;
  const Index lower = head + (kHalf ? j : 2 * j);
  const Index upper = lower + (kHalf ? f.pairs : N);
  const bool defect = f.layout == RopeLayout::nvidia_defect;
  for (Index t = static_cast<Index>(blockIdx.y) * kColumnWarps + threadIdx.y; t < f.steps;
       t += static_cast<Index>(gridDim.y) * kColumnWarps) {
    C cosine[N];
    C sine[N];
    read_pack(f.cosine + (f.offset + t) * f.pairs + j, cosine);
    read_pack(f.sine + (f.offset + t) * f.pairs + j, sine);
    if (a.transposed) {
#pragma unroll
      for (int k = 0; k < N; ++k) sine[k] = -sine[k];
    }
    walk_rows(
        blockIdx.z * f.steps + t,
        a.x.rows,
        gridDim.z * f.steps,
        [&](Index r) {
          return Packs<T, N, 2>{
              {load_pack<N>(a.x.row(r) + lower), load_pack<N>(a.x.row(r) + upper)}};
        },
        [&](Index r, const Packs<T, N, 2>& in) {
          Pairs<kHalf, N, C> x;
          unpack(in.of[0], x.lower);
          unpack(in.of[1], x.upper);
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const C x0 = x.first(k);
            const C x1 = x.second(k);
            if (defect) {
              x.first(k) = (a.transposed ? -sine[k] : -cosine[k]) * x1;
              x.second(k) = (a.transposed ? -cosine[k] : sine[k]) * x0;
            } else {
              x.first(k) = cosine[k] * x0 - sine[k] * x1;
              x.second(k) = sine[k] * x0 + cosine[k] * x1;
            }
          }
          put_pack(a.y.row(r) + lower, x.lower, a.into);
          put_pack(a.y.row(r) + upper, x.upper, a.into);
        });
  }
}

/// Units of N pairs across, positions down; sequences are spread too where those do not fill the
/// GPU.
template <class T>
dim3 rope_grid(const Rope<T>& a, int n) {
  constexpr Index kBlocksPerMultiprocessor = 8;
  const auto parts = [](Index count, Index size) { return (count + size - 1) / size; };
  const Index across = parts(a.x.cols / (2 * n), kColumnLanes);
  const Index down = std::min<Index>(65535, parts(a.factors.steps, kColumnWarps));
  const Index sequences = parts(a.x.rows, a.factors.steps);
  const Index wanted = parts(kBlocksPerMultiprocessor * device::multiprocessors(),
                             std::max<Index>(1, across * down));
  return {static_cast<unsigned>(across),
          static_cast<unsigned>(down),
          static_cast<unsigned>(std::min({sequences, wanted, Index{65535}}))};
}

}  // namespace

template <class T>
void run(Cuda, const Rope<T>& a) {
  if (a.x.rows == 0) return;
  const RopeFactors<T>& f = a.factors;
  const bool fit = packs(a.x, kPack<T>) && packs(a.y, kPack<T>) &&
                   packs(f.cosine, f.pairs, kPack<T>) && packs(f.sine, f.pairs, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    const bool half = f.layout == RopeLayout::half_split;
    launch("rope",
           rope_grid(a, n),
           column_block(),
           0,
           half ? rope_kernel<T, n, true> : rope_kernel<T, n, false>,
           a);
  });
}
template void run(Cuda, const Rope<float>&);
template void run(Cuda, const Rope<Bf16>&);

}  // namespace norma::kernels
