// Attention's gradient on Hopper. For heads of 64 in whole tiles all in one kernel, where dq is
// added up in memory in a fixed order; otherwise dk and dv by tiles of keys and dq by tiles of
// queries, so that nothing is added by two blocks, and S and dP are made twice.
#include <map>
#include <vector>

#include "norma/kernels/cuda/attention_wgmma.h"
#include "norma/kernels/cuda/attention_wgmma_joint.cuh"
#include "norma/kernels/cuda/attention_wgmma_keys.cuh"
#include "norma/kernels/cuda/attention_wgmma_queries.cuh"
#include "norma/kernels/cuda/row_packs.cuh"
#include "norma/kernels/cuda/tile_maps.cuh"

namespace norma::kernels {

namespace wgmma {

namespace {

constexpr int kRowThreads = 256;
constexpr int kRowsAtOnce = 4;  // heads of rows that a thread loads before it uses one

/// scratch (batch, heads, queries) = <dout, o>, kWidth / 8 lanes for each, of which the last may
/// have nothing to do.
template <int kWidth>
__global__ void __launch_bounds__(kRowThreads) rows_kernel(const AttentionBackward<Bf16> a) {
  constexpr unsigned kLanes = kWidth / 8;
  constexpr unsigned kBeside = kRowThreads / kLanes;
  const AttentionShape& s = a.shape;
  const auto heads = static_cast<unsigned>(s.heads);
  const auto queries = static_cast<unsigned>(s.queries);
  const unsigned count = static_cast<unsigned>(s.batch) * queries * heads;
  const unsigned first = blockIdx.x * kBeside * kRowsAtOnce + threadIdx.x / kLanes;
  const Index column = threadIdx.x % kLanes * 8;
  const bool there = column < s.head_width;
  unsigned row[kRowsAtOnce];
  unsigned head[kRowsAtOnce];
  Neighbours<Bf16, 8> o[kRowsAtOnce];
  Neighbours<Bf16, 8> dout[kRowsAtOnce];
#pragma unroll
  for (int k = 0; k < kRowsAtOnce; ++k) {
    const unsigned i = min(first + k * kBeside, count - 1);  // all lanes take part in the sums
    row[k] = i / heads;
    head[k] = i % heads;
    const Index at = head[k] * s.head_width + (there ? column : 0);
    o[k].load(a.o.row(row[k]) + at);
    dout[k].load(a.dout.row(row[k]) + at);
  }
#pragma unroll
  for (int k = 0; k < kRowsAtOnce; ++k) {
    float x[8];
    float dx[8];
    o[k].get(x);
    dout[k].get(dx);
    float sum = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) sum = fmaf(x[c], dx[c], sum);
    sum = warp_sum<kLanes>(there ? sum : 0.0F);
    if (threadIdx.x % kLanes != 0 || first + k * kBeside >= count) continue;
    const unsigned batch = row[k] / queries;
    a.scratch[(static_cast<Index>(batch) * heads + head[k]) * queries + row[k] % queries] = sum;
  }
}

template <class T>
const T* kept_on_gpu(const std::vector<T>& values) {
  void* const memory = device::allocate(values.size() * sizeof(T));
  device::copy_in(memory, values.data(), values.size() * sizeof(T));
  return static_cast<const T*>(memory);
}
/// The schedule in the GPU's memory, made when it is first wanted: that is never while a graph is
/// taken down, because the first step of a shape runs without. Never freed: graphs keep addresses.
const JointWork& work_of(const JointWalk& walk) {
  static auto* const kMade = new std::map<JointWalk, JointWork>;
  const auto made = kMade->find(walk);
  if (made != kMade->end()) return made->second;
  const JointSchedule schedule = joint_schedule(walk);
  const JointWork work{.walk = walk,
                       .tiles = kept_on_gpu(schedule.tiles),
                       .begins = kept_on_gpu(schedule.begins),
                       .turns = kept_on_gpu(schedule.turns)};
  return kMade->emplace(walk, work).first->second;
}

/// All three in one kernel; the rows' sums are there.
void joint_pass(const AttentionBackward<Bf16>& a, const Maps& maps) {
  const AttentionShape& s = a.shape;
  static_assert(kJointWidth == kSide && kJointTile == kTile);
  const AttentionScratch at = scratch_on_gpu(s, true);
  auto* const turns = reinterpret_cast<unsigned*>(a.scratch + at.turns_at);
  const auto bytes = static_cast<std::size_t>(at.turns) * sizeof(unsigned);
  device::check(cudaMemsetAsync(turns, 0, bytes, device::stream()), "clearing turns");
  const JointWalk walk =
      joint_walk(s.batch * s.heads, s.keys / kTile, s.causal, device::multiprocessors());
  launch_together("attention's gradient",
                  walk.workers,
                  kThreads,
                  JointPlan::kBytes,
                  s.causal ? joint_kernel<true> : joint_kernel<false>,
                  maps,
                  a,
                  work_of(walk),
                  JointSums{.dq = a.scratch + at.sums_at, .turns = turns});
}

template <int kWidth>
void passes(const AttentionBackward<Bf16>& a, const Maps& maps) {
  const AttentionShape& s = a.shape;
  constexpr Index kRowsOfBlock = kRowThreads / (kWidth / 8) * kRowsAtOnce;
  launch("attention's gradient: rows",
         static_cast<unsigned>((s.batch * s.queries * s.heads + kRowsOfBlock - 1) / kRowsOfBlock),
         kRowThreads,
         0,
         rows_kernel<kWidth>,
         a);
  if constexpr (kWidth == kJointWidth) {
    if (a.joint) return joint_pass(a, maps);
  }
  if (a.dk || a.dv) {
    const Walk walk = walk_of(s.batch * s.kv_heads, s.keys, s.causal);
    launch_tiles("attention's gradient: keys",
                 blocks_of(walk),
                 kThreads,
                 Plan<kWidth>::kBytes,
                 keys_kernel<kWidth>,
                 maps,
                 a,
                 walk);
  }
  if (a.dq || a.dhead_factor != nullptr) {
    const Walk walk = walk_of(s.batch * s.heads, s.queries, s.causal);
    launch_tiles("attention's gradient: queries",
                 blocks_of(walk),
                 kThreads,
                 Plan<kWidth>::kBytes,
                 queries_kernel<kWidth>,
                 maps,
                 a,
                 walk);
  }
}

}  // namespace

}  // namespace wgmma

bool wgmma_attention(const AttentionBackward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  if (!wgmma::suits(s)) return false;
  const auto fits = [&](const auto& rows) { return !rows || heads_pack(s, rows); };
  if (!heads_pack(s, a.q, a.k, a.v, a.o, a.dout) || !fits(a.dq) || !fits(a.dk) || !fits(a.dv)) {
    return false;
  }
  wgmma::Maps maps;
  for (const auto& [rows, map] : {std::pair{a.q, &maps.q},
                                  std::pair{a.k, &maps.k},
                                  std::pair{a.v, &maps.v},
                                  std::pair{a.dout, &maps.dout}}) {
    if (!tile_copy::describe_heads(rows, s.head_width, s.queries, s.batch, *map)) return false;
  }
  if (s.head_width <= 64) {
    wgmma::passes<64>(a, maps);
  } else {
    wgmma::passes<128>(a, maps);
  }
  return true;
}

}  // namespace norma::kernels
