// Copies of 16 bytes into shared memory without a register in between, which are there later.
#pragma once

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

__device__ inline void copy_later(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}
/// Zeros where they are not there.
__device__ inline void copy_later(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
/// Closes a group of this thread's copies.
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Waits for all groups of this thread but the last kPending.
template <int kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}
/// Waits for all of this thread's copies.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

}  // namespace norma::kernels
