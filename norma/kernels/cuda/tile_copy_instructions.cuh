// Instructions of Hopper's copy engine and of its barriers. What they are for is in tile_copy.cuh;
// the tests have a page of this name whose instructions a host carries out.
#pragma once

#include <cstdint>

#include <cuda.h>

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels::tile_copy {

__device__ inline void make_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
/// After the barriers are made, before the block's threads meet.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
/// Arrives and says how many bytes copies will bring.
__device__ inline void arrive_expecting(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// kCluster: what other blocks of the cluster sent with the phase is seen afterwards, too.
template <bool kCluster = false>
__device__ inline bool is_over(unsigned barrier, unsigned phase) {
  unsigned over = 0;
  if constexpr (kCluster) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(over)
        : "r"(barrier), "r"(phase)
        : "memory");
    return over != 0;
  }
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(over)
      : "r"(barrier), "r"(phase)
      : "memory");
  return over != 0;
}
__device__ inline unsigned long long nanoseconds() {
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;\n" : "=l"(now));
  return now;
}
/// Some 0.2 microseconds in which this warp asks for nothing.
__device__ inline void pause() { __nanosleep(200); }
/// The box at (column, row) of matrix `index`; what lies beyond the matrix comes as zeros.
__device__ inline void copy_box(
    unsigned to, const CUtensorMap* from, int column, int row, int index, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(to),
      "l"(from),
      "r"(column),
      "r"(row),
      "r"(index),
      "r"(barrier)
      : "memory");
}

/// 64 columns of 64 rows of one head (describe_heads()); beyond its width come zeros.
__device__ inline void copy_head(unsigned to,
                                 const CUtensorMap* from,
                                 int column,
                                 int head,
                                 int row,
                                 int index,
                                 unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(to),
      "l"(from),
      "r"(column),
      "r"(head),
      "r"(row),
      "r"(index),
      "r"(barrier)
      : "memory");
}

/// A span without a map: `bytes` and both addresses are multiples of 16.
__device__ inline void copy_span(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(to),
      "l"(from),
      "r"(bytes),
      "r"(barrier)
      : "memory");
}
/// Which block of its cluster this is.
__device__ inline unsigned rank_in_cluster() {
  unsigned rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
/// Of all threads of a cluster.
__device__ inline void meet_cluster() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;\n" ::: "memory");
}
/// copy_box into this place of both blocks of a cluster; each block's barrier is told.
__device__ inline void copy_box_to_both(
    unsigned to, const CUtensorMap* from, int column, int row, int index, unsigned barrier) {
  constexpr std::uint16_t kBoth = 3;
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(to),
      "l"(from),
      "r"(column),
      "r"(row),
      "r"(index),
      "r"(barrier),
      "h"(kBoth)
      : "memory");
}
/// Arrives `kTimes` at a barrier of a block of the cluster. Says nothing of what this thread wrote:
/// who arrives here has only read.
template <int kTimes = 1>
__device__ inline void arrive_at(unsigned barrier, unsigned block) {
  asm volatile(
      "{\n.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there], %2;\n}\n" ::"r"(barrier),
      "r"(block),
      "n"(kTimes)
      : "memory");
}
/// Four numbers to the shared memory of a block of the cluster, whose barrier is told of 16 bytes.
/// `to` and `barrier` are the places in this block, `to` at a multiple of 16. For clusters alone.
__device__ inline void send(unsigned to, float4 values, unsigned barrier, unsigned block) {
  asm volatile(
      "{\n.reg .b32 there, told;\n"
      "mapa.shared::cluster.u32 there, %0, %6;\n"
      "mapa.shared::cluster.u32 told, %5, %6;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[there], {%1, %2, %3, %4}, [told];\n}\n" ::"r"(to),
      "f"(values.x),
      "f"(values.y),
      "f"(values.z),
      "f"(values.w),
      "r"(barrier),
      "r"(block)
      : "memory");
}

/// By every thread that wrote to shared memory what the engine will read, before they meet.
__device__ inline void show_to_engine() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
/// A box from shared memory to (column, row) of matrix `index`, without what lies beyond it.
__device__ inline void store_box(
    const CUtensorMap* to, int column, int row, int index, unsigned from) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];\n" ::"l"(to),
      "r"(column),
      "r"(row),
      "r"(index),
      "r"(from)
      : "memory");
}
/// 64 columns of 64 rows of one head, without what lies beyond its width and the matrix.
__device__ inline void store_head(
    const CUtensorMap* to, int column, int head, int row, int index, unsigned from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n" ::"l"(
          to),
      "r"(column),
      "r"(head),
      "r"(row),
      "r"(index),
      "r"(from)
      : "memory");
}
/// kBytes of floats from shared memory into memory, set or added; multiples of 16.
template <int kBytes>
__device__ inline void store_span(float* to, unsigned from) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n" ::"l"(to),
               "r"(from),
               "n"(kBytes)
               : "memory");
}
template <int kBytes>
__device__ inline void add_span(float* to, unsigned from) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(to),
      "r"(from),
      "n"(kBytes)
      : "memory");
}
/// What others wrote to memory and told of is there for the engine too.
__device__ inline void show_memory_to_engine() {
  asm volatile("fence.proxy.async.global;\n" ::: "memory");
}
/// A number in memory that blocks tell each other: what was written before it was told is seen by
/// who has seen it.
__device__ inline void tell(unsigned* told, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(told), "r"(value) : "memory");
}
__device__ inline bool is_told(const unsigned* told, unsigned value) {
  unsigned now = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(now) : "l"(told) : "memory");
  return now == value;
}
__device__ inline void put_shared(unsigned to, float4 values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(to),
               "f"(values.x),
               "f"(values.y),
               "f"(values.z),
               "f"(values.w)
               : "memory");
}
/// Closes a group of this thread's stores.
__device__ inline void close_stores() {
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}
/// Waits until shared memory was read by all groups of this thread but the last kPending.
template <int kPending>
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kPending) : "memory");
}
/// Waits until everything that this thread stored has arrived.
__device__ inline void wait_until_stored() {
  asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

}  // namespace norma::kernels::tile_copy
