#include "norma/kernels/cuda/head_odds.cuh"
#include "norma/kernels/cuda/head_rows.h"
#include "norma/kernels/cuda/loss_quick.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__global__ void __launch_bounds__(kThreads) targets_kernel(HeadOdds<Bf16> a, OddsNotes notes) {
  const int lane = threadIdx.x % 32;
  const Index row = static_cast<Index>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= a.x.rows) return;
  const int target = a.targets[row];
  float sum = 0;
  if (target >= 0 && target < a.odds.cols) {
    const Bf16* w = a.weight + target * a.x.cols;
    for (Index c = lane * N; c < a.x.cols; c += 32 * N) {
      float x_part[N];
      float w_part[N];
      read_pack(a.x.row(row) + c, x_part);
      read_pack(w + c, w_part);
#pragma unroll
      for (int i = 0; i < N; ++i) sum = fmaf(x_part[i], w_part[i], sum);
    }
  }
  sum = warp_sum(sum);
  if (lane != 0) return;
  notes.references[row] = reference_of(target, a.odds.cols, fmaf(kLog2E, sum, kOddsRoom));
  notes.largest[row] = ordered_bits(-INFINITY);
  if (row % kOddsTile == 0) notes.in_excess[row / kOddsTile] = 0;
}

constexpr int kRows = 32;  // of a block
constexpr int kRowsOfWarp = kRows / kWarps;

__global__ void __launch_bounds__(kThreads) finish_kernel(HeadOdds<Bf16> a, OddsNotes notes) {
  __shared__ float parts[kWarps][kRows];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const Index first = static_cast<Index>(blockIdx.x) * kRows;
  const Index tiles = odds_tiles(a.odds.cols);
  float part = 0;
  if (first + lane < a.x.rows) {
#pragma unroll 8
    for (Index t = warp; t < tiles; t += kWarps) {
      part += notes.partials[t * a.x.rows + first + lane];
    }
  }
  parts[warp][lane] = part;
  __syncthreads();
  const auto share = static_cast<float>(1 / *a.tokens);
  for (int i = 0; i < kRowsOfWarp; ++i) {
    const int r = warp * kRowsOfWarp + i;
    const Index row = first + r;
    if (row >= a.x.rows) return;
    const int target = a.targets[row];
    float others = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) others += parts[w][r];
    const bool again = notes.in_excess[row / kOddsTile] != 0;
    const float reference =
        again ? reference_of(target, a.odds.cols, kLog2E * number_of(notes.largest[row]))
              : notes.references[row];
    const float beside = distance(kLog2E, notes.hits[row], reference);
    RowEnd end =
        end_row({a.odds.cols, a.z_loss}, target, {reference, others}, beside, share, lane == 0);
    // Where the z-loss takes all of a row's share away, a little stays: the target's dz is made of
    // it.
    const float least = 0x1p-20F * share / (others + expf(kNatsPerBit * beside));
    if (target >= 0 && fabsf(end.grow) < least) end.grow = least;
    if (lane == 0) {
      a.losses[row] = static_cast<double>(end.loss);
      a.shares[row] = end.grow;
      if (target >= 0 && target < a.odds.cols) write(a.odds(row, target), end.hit / end.grow);
    }
    for (Index c = lane * N; c < a.x.cols; c += 32 * N) {
      float values[N];
      read_pack(a.x.row(row) + c, values);
#pragma unroll
      for (float& value : values) value = target == -1 ? 0 : value * end.grow;
      write_pack(a.shared_x.row(row) + c, values);
    }
  }
}

}  // namespace

void compare_with_targets(const HeadOdds<Bf16>& a, const OddsNotes& notes) {
  launch("logits of targets",
         static_cast<unsigned>((a.x.rows + kWarps - 1) / kWarps),
         kThreads,
         0,
         targets_kernel,
         a,
         notes);
}

void finish_odds(const HeadOdds<Bf16>& a, const OddsNotes& notes) {
  launch("losses from odds",
         static_cast<unsigned>((a.x.rows + kRows - 1) / kRows),
         kThreads,
         0,
         finish_kernel,
         a,
         notes);
}

}  // namespace norma::kernels
