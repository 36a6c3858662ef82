// Clusters: blocks that run at the same time and write into each other's shared memory, so that a
// row too long for one of them stays on the chip. GPUs before Hopper have clusters of one block.
#pragma once

#include "norma/device/cuda/launch.cuh"

namespace norma::kernels {

inline constexpr int kMostClusterBlocks = 8;  // what every GPU with clusters can do

/// Waits for all threads of the cluster; what they wrote before is seen afterwards.
__device__ inline void cluster_sync(int blocks) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    asm volatile(
        "barrier.cluster.arrive.release;\n"
        "barrier.cluster.wait.acquire;\n" ::
            : "memory");
    return;
  }
#endif
  __syncthreads();
}

/// Where a variable in shared memory lies in another block of the cluster.
template <class T>
__device__ inline T* in_block(T* mine, int blocks, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    return static_cast<T*>(__cluster_map_shared_rank(mine, static_cast<unsigned>(rank)));
  }
#endif
  return mine;
}

inline bool has_clusters() { return device::code().architecture >= 900; }

/// Gives a kernel as much shared memory as it wants.
template <class... Parameters>
void allow_shared(const char* what, std::size_t shared, void (*kernel)(Parameters...)) {
  device::allow_shared_memory(kernel, shared);
  // The driver's own choice leaves room for one block where two would fit.
  device::check(cudaFuncSetAttribute(
                    reinterpret_cast<const void*>(kernel),
                    cudaFuncAttributePreferredSharedMemoryCarveout,
                    shared == 0 ? cudaSharedmemCarveoutDefault : cudaSharedmemCarveoutMaxShared),
                what);
}

inline cudaLaunchAttribute cluster_attribute(int cluster) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  return attribute;
}

/// How many clusters of two or more blocks the GPU has running at once: groups of its
/// multiprocessors whose number `cluster` does not divide leave some idle.
template <class... Parameters>
int clusters_at_once(
    const char* what, int cluster, int threads, std::size_t shared, void (*kernel)(Parameters...)) {
  // Before the question, for the answer must not change with the first launch.
  allow_shared(what, shared, kernel);
  cudaLaunchAttribute attribute = cluster_attribute(cluster);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int answer = 0;
  device::check(cudaOccupancyMaxActiveClusters(&answer, kernel, &config), what);
  return answer;
}

/// The launch of clusters of `cluster` neighbouring blocks, with as much shared memory as wanted.
template <class... Parameters, class... Arguments>
void launch_clusters(const char* what,
                     unsigned blocks,
                     int cluster,
                     int threads,
                     std::size_t shared,
                     void (*kernel)(Parameters...),
                     Arguments&&... arguments) {
  allow_shared(what, shared, kernel);
  cudaLaunchAttribute attribute = cluster_attribute(cluster);
  device::launch_as(
      cluster > 1 ? &attribute : nullptr, what, blocks, threads, shared, kernel, arguments...);
}

}  // namespace norma::kernels
