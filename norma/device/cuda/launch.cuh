// Launching kernels: the grid is checked, and so is what the launch answers.
#pragma once

#include <cuda_bf16.h>

#include "norma/base/bf16.h"
#include "norma/device/cuda/runtime.h"

namespace norma::device {

/// launch() with an attribute, or without one where it is null.
template <class... Parameters, class... Arguments>
void launch_as(cudaLaunchAttribute* attribute,
               const char* what,
               dim3 blocks,
               dim3 threads,
               std::size_t shared,
               void (*kernel)(Parameters...),
               Arguments&&... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = stream();
  config.attrs = attribute;
  config.numAttrs = attribute == nullptr ? 0 : 1;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), what);
}

/// kernel<<<blocks, threads, shared>>>(arguments...) on the stream.
template <class... Parameters, class... Arguments>
void launch(const char* what,
            dim3 blocks,
            dim3 threads,
            std::size_t shared,
            void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  launch_as(nullptr, what, blocks, threads, shared, kernel, arguments...);
}

/// More shared memory than a kernel gets unasked.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(
            kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for shared memory");
}

/// launch() with as much of it.
template <class... Parameters, class... Arguments>
void launch_tiles(const char* what,
                  Index blocks,
                  int threads,
                  std::size_t shared,
                  void (*kernel)(Parameters...),
                  Arguments&&... arguments) {
  allow_shared_memory(kernel, shared);
  launch(what, static_cast<unsigned>(blocks), threads, shared, kernel, arguments...);
}

/// launch_tiles() of blocks that wait for each other: an error where they cannot all be at work at
/// the same time, instead of waiting for ever.
template <class... Parameters, class... Arguments>
void launch_together(const char* what,
                     Index blocks,
                     int threads,
                     std::size_t shared,
                     void (*kernel)(Parameters...),
                     Arguments&&... arguments) {
  allow_shared_memory(kernel, shared);
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  launch_as(&together, what, static_cast<unsigned>(blocks), threads, shared, kernel, arguments...);
}

/// Blocks of `threads` for `count` items, at most `most`: kernels walk on in strides of the grid.
inline unsigned blocks_for(Index count, int threads, Index most = Index{1} << 20) {
  const Index wanted = (count + threads - 1) / threads;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

// Stored and computed types. Kernels load into float (double for sums that need it) and round once
// when they store.
__device__ inline float load(float value) { return value; }
__device__ inline float load(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline void store(float& to, float value) { to = value; }
__device__ inline void store(Bf16& to, float value) {
  to.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

}  // namespace norma::device
