#include <utility>

#include "norma/kernels/cuda/sort_ids.cuh"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kDigits = EmbeddingSort::kDigits;
constexpr int kDigitBits = 8;
static_assert(kDigits == 1 << kDigitBits && kDigits == kThreads);
constexpr int kWarpTokens = EmbeddingSort::kTile / kWarps;  // neighbours, taken 32 at a time

struct Pass {
  const std::int32_t* ids;
  const std::int32_t* tokens;
  std::int32_t* ids_out;
  std::int32_t* tokens_out;
  std::int32_t* counts;  // (kDigits, tiles); then where each begins
  Index count;
  Index tiles;
  int shift;
};

__global__ void collect_kernel(Rows<const std::int32_t> ids,
                               std::int32_t vocabulary,
                               std::int32_t* ids_out,
                               std::int32_t* tokens_out) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index n = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; n < ids.rows * ids.cols;
       n += step) {
    const std::int32_t id = ids(n / ids.cols, n % ids.cols);
    ids_out[n] = id < 0 || id >= vocabulary ? vocabulary : id;
    tokens_out[n] = static_cast<std::int32_t>(n);
  }
}

/// f(n, digit, lanes with the same digit) for the tokens of this warp in order; past the end of the
/// tokens the digit is kDigits.
template <class F>
__device__ void walk_tokens(const Pass& pass, F&& f) {
  const Index first =
      static_cast<Index>(blockIdx.x) * EmbeddingSort::kTile + threadIdx.x / 32 * kWarpTokens;
  for (int i = 0; i < kWarpTokens; i += 32) {
    const Index n = first + i + threadIdx.x % 32;
    const int digit =
        n < pass.count ? (pass.ids[n] >> pass.shift) & (kDigits - 1) : static_cast<int>(kDigits);
    f(n, digit, __match_any_sync(0xFFFFFFFFU, digit));
    __syncwarp();
  }
}

/// How often every digit occurs among the tokens of every warp.
__device__ void count_digits(const Pass& pass, std::int32_t (&counts)[kWarps][kDigits]) {
  for (int w = 0; w < kWarps; ++w) counts[w][threadIdx.x] = 0;
  __syncthreads();
  std::int32_t* mine = counts[threadIdx.x / 32];
  walk_tokens(pass, [&](Index, int digit, unsigned same) {
    const bool leads = __ffs(static_cast<int>(same)) - 1 == static_cast<int>(threadIdx.x % 32);
    if (leads && digit < kDigits) mine[digit] += __popc(same);
  });
  __syncthreads();
}

__global__ void count_kernel(Pass pass) {
  __shared__ std::int32_t counts[kWarps][kDigits];
  count_digits(pass, counts);
  std::int32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += counts[w][threadIdx.x];
  pass.counts[threadIdx.x * pass.tiles + blockIdx.x] = sum;
}

constexpr int kBeginThreads = 1024;
constexpr int kDigitsOfWarp = kDigits / (kBeginThreads / 32);

/// counts → the sum of all counts before. One block, each warp with some digits; neighbours in a
/// row of counts are read by neighbours in a warp.
__global__ void begin_kernel(std::int32_t* counts, Index tiles) {
  __shared__ std::int32_t totals[kDigits];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto first = static_cast<int>(threadIdx.x / 32) * kDigitsOfWarp;
  std::int32_t* const mine = counts + first * tiles;
  std::int32_t sums[kDigitsOfWarp] = {};
  for (Index at = lane; at < tiles; at += 32) {
#pragma unroll
    for (int k = 0; k < kDigitsOfWarp; ++k) sums[k] += mine[k * tiles + at];
  }
#pragma unroll
  for (int k = 0; k < kDigitsOfWarp; ++k) sums[k] = warp_sum(sums[k]);
  if (lane == 0) {
#pragma unroll
    for (int k = 0; k < kDigitsOfWarp; ++k) totals[first + k] = sums[k];
  }
  __syncthreads();
  std::int32_t before = 0;
  for (int digit = lane; digit < first; digit += 32) before += totals[digit];
  before = warp_sum(before);
  std::int32_t begins[kDigitsOfWarp];
#pragma unroll
  for (int k = 0; k < kDigitsOfWarp; ++k) begins[k] = std::exchange(before, before + sums[k]);
  for (Index base = 0; base < tiles; base += 32) {
    const bool there = base + lane < tiles;
    std::int32_t own[kDigitsOfWarp];
#pragma unroll
    for (int k = 0; k < kDigitsOfWarp; ++k) own[k] = there ? mine[k * tiles + base + lane] : 0;
#pragma unroll
    for (int k = 0; k < kDigitsOfWarp; ++k) {
      std::int32_t upto = own[k];  // of the lanes up to this one
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const std::int32_t other =
            __shfl_sync(0xFFFFFFFFU, upto, lane >= step ? lane - step : lane);
        if (lane >= step) upto += other;
      }
      if (there) mine[k * tiles + base + lane] = begins[k] + upto - own[k];
      begins[k] += __shfl_sync(0xFFFFFFFFU, upto, 31);
    }
  }
}

__global__ void move_kernel(Pass pass) {
  __shared__ std::int32_t places[kWarps][kDigits];
  count_digits(pass, places);
  std::int32_t at = pass.counts[threadIdx.x * pass.tiles + blockIdx.x];
  for (int w = 0; w < kWarps; ++w) {
    const std::int32_t count = places[w][threadIdx.x];
    places[w][threadIdx.x] = at;
    at += count;
  }
  __syncthreads();
  std::int32_t* mine = places[threadIdx.x / 32];
  walk_tokens(pass, [&](Index n, int digit, unsigned same) {
    const unsigned lane = threadIdx.x % 32;
    const int rank = __popc(same & ((1U << lane) - 1));
    std::int32_t place = 0;
    if (digit < kDigits) {
      place = mine[digit] + rank;
      pass.ids_out[place] = pass.ids[n];
      pass.tokens_out[place] = pass.tokens[n];
    }
    __syncwarp();  // all have read their place
    if (digit < kDigits && rank == 0) mine[digit] += __popc(same);
  });
}

}  // namespace

SortedIds sort_ids(const Rows<const std::int32_t>& ids,
                   const EmbeddingSort& sort,
                   std::int32_t* integers) {
  const Index n = sort.tokens;
  const Index tiles = sort.tiles();
  Pass pass{.ids = integers,
            .tokens = integers + n,
            .ids_out = integers + 2 * n,
            .tokens_out = integers + 3 * n,
            .counts = integers + 4 * n,
            .count = n,
            .tiles = tiles,
            .shift = 0};
  launch("collecting ids",
         device::blocks_for(n, kThreads),
         kThreads,
         0,
         collect_kernel,
         ids,
         static_cast<std::int32_t>(sort.vocabulary),
         integers,
         integers + n);
  const auto grid = static_cast<unsigned>(tiles);
  for (; pass.shift < 31 && (sort.vocabulary >> pass.shift) > 0; pass.shift += kDigitBits) {
    launch("counting digits", grid, kThreads, 0, count_kernel, pass);
    launch("adding counts", grid == 0 ? 0 : 1, kBeginThreads, 0, begin_kernel, pass.counts, tiles);
    launch("sorting by a digit", grid, kThreads, 0, move_kernel, pass);
    std::int32_t* ids_in = const_cast<std::int32_t*>(pass.ids);
    std::int32_t* tokens_in = const_cast<std::int32_t*>(pass.tokens);
    pass.ids = std::exchange(pass.ids_out, ids_in);
    pass.tokens = std::exchange(pass.tokens_out, tokens_in);
  }
  return {pass.ids, pass.tokens};
}

}  // namespace norma::kernels
