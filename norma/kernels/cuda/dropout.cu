#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/dropout.h"

namespace norma::kernels {

namespace {

template <class T, int N>
__device__ inline void put_kept(
    const Pack<T, N>& pack, unsigned kept, Math<T> scale, T* to, Into into) {
  Math<T> values[N];
  unpack(pack, values);
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = (kept >> k & 1U) != 0 ? values[k] * scale : 0;
  put_pack(to, values, into);
}

/// Bit k says whether column c + k of a row is kept. The 64 columns of a group lie in 64 / N lanes,
/// each of which draws N / 4 of the group's 16 blocks; votes carry the bits to where they belong.
/// All lanes of the warp call it, with neighbouring packs of one row, also beyond its last column.
template <int N>
__device__ inline unsigned kept_bits(const DropRule& rule, Index r, Index cols, Index c) {
  constexpr int kLanes = static_cast<int>(kDropGroup) / N;
  constexpr int kBlocks = N / 4;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int word = lane * N / static_cast<int>(kDropLanes);
  const std::uint64_t first = drop_group_position(rule.first + r, cols, c) + lane * kBlocks;
  unsigned votes[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const RandomBlock words = random_block(rule.key, first + b);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned vote = __ballot_sync(0xFFFFFFFFU, words[w] >= rule.threshold);
      if (w == word) votes[b] = vote;
    }
  }
  // Column k of this lane takes block (lane·N + k) % 16, which lane block / kBlocks of the group
  // drew.
  const int at = static_cast<int>(threadIdx.x) / kLanes * kLanes +
                 lane * N % static_cast<int>(kDropLanes) / kBlocks;
  unsigned kept = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) kept |= (votes[k % kBlocks] >> (at + k / kBlocks) & 1U) << k;
  return kept;
}
template <>
__device__ inline unsigned kept_bits<1>(const DropRule& rule, Index r, Index cols, Index c) {
  const Index in_group = c % kDropGroup;
  const std::uint64_t first = drop_group_position(rule.first + r, cols, c);
  const RandomBlock words = random_block(rule.key, first + in_group % kDropLanes);
  unsigned kept = 0;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if (w == in_group / kDropLanes) kept = words[w] >= rule.threshold ? 1U : 0U;
  }
  return kept;
}

template <class T, int N>
__global__ void dropout_kernel(Dropout<T> a) {
  const Index c = own_column<N>();
  const Index cols = a.from.cols;
  const DropRule rule = a.rule.at_step();
  const auto scale = static_cast<Math<T>>(rule.scale);
  // A warp has one row, so that all its lanes vote; those beyond the last column do no more.
  walk_all_rows(
      a.from.rows,
      [&](Index r) { return c < cols ? load_packs<N>(r, c, a.from) : Packs<T, N, 1>{}; },
      [&](Index r, const Packs<T, N, 1>& in) {
        const unsigned kept = kept_bits<N>(rule, r, cols, c);
        if (c < cols) put_kept(in.of[0], kept, scale, a.to.row(r) + c, a.into);
      });
}

// A warp takes a row: one draw serves all its columns, and rows that are dropped are not read.
template <class T, int N>
__global__ void drop_path_kernel(DropPath<T> a) {
  const DropRule rule = a.rule.at_step();
  const auto scale = static_cast<Math<T>>(rule.scale);
  const Index step = static_cast<Index>(gridDim.x) * kColumnWarps;
  for (Index r = static_cast<Index>(blockIdx.x) * kColumnWarps + threadIdx.y; r < a.from.rows;
       r += step) {
    const auto sample = static_cast<std::uint64_t>(rule.first + r / a.rows_per_sample);
    const RandomBlock words = random_block(rule.key, sample / 4);
    std::uint32_t word = words[0];
#pragma unroll
    for (int w = 1; w < 4; ++w) {
      if (sample % 4 == w) word = words[w];
    }
    const bool kept = word >= rule.threshold;
    if (!kept && a.into == Into::add) continue;
    const Rows<const T> from = kept ? a.from : Rows<const T>{};
    const unsigned bits = kept ? ~0U : 0U;
    walk_rows(
        threadIdx.x * N,
        a.from.cols,
        kColumnLanes * N,
        [&](Index c) { return load_packs<N>(r, c, from); },
        [&](Index c, const Packs<T, N, 1>& in) {
          put_kept(in.of[0], bits, scale, a.to.row(r) + c, a.into);
        });
  }
}

}  // namespace

template <class T>
void run(Cuda, const Dropout<T>& a) {
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.to, kPack<T>), [&](auto n) {
    launch("dropout",
           element_grid(a.from.rows, a.from.cols, n),
           column_block(),
           0,
           dropout_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const Dropout<float>&);
template void run(Cuda, const Dropout<Bf16>&);

template <class T>
void run(Cuda, const DropPath<T>& a) {
  with_pack<T>(packs(a.from, kPack<T>) && packs(a.to, kPack<T>), [&](auto n) {
    launch("dropping samples",
           device::blocks_for(a.from.rows, kColumnWarps),
           column_block(),
           0,
           drop_path_kernel<T, n>,
           a);
  });
}
template void run(Cuda, const DropPath<float>&);
template void run(Cuda, const DropPath<Bf16>&);

}  // namespace norma::kernels
