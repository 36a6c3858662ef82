// In place of CUDA's page of this name: what the engine takes of the runtime and of the language,
// on the host. What is queued is done at once; kernels run on tests/hopper/machine.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include <math.h>

#include "tests/hopper/machine.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): CUDA's names

// The language. Blocks that have variables of their own come one after the other, on one thread.
#define __host__
#define __device__
#define __global__
#define __shared__ thread_local
#define __grid_constant__
#define __align__(bytes)
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __CUDA_ARCH_FEAT_SM90_ALL 1

inline const norma::hopper::Extent& threadIdx = norma::hopper::here.thread;
inline const norma::hopper::Extent& blockIdx = norma::hopper::here.block;
inline const norma::hopper::Extent& blockDim = norma::hopper::here.threads;
inline const norma::hopper::Extent& gridDim = norma::hopper::here.blocks;
using dim3 = norma::hopper::Extent;
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}
inline void sincospif(float x, float* sine, float* cosine) {
  constexpr double kPi = 3.141592653589793;
  *sine = static_cast<float>(std::sin(kPi * static_cast<double>(x)));
  *cosine = static_cast<float>(std::cos(kPi * static_cast<double>(x)));
}
inline float __saturatef(float x) { return x > 0 ? std::min(x, 1.0F) : 0.0F; }  // NaN: 0
inline float __fmul_rn(float x, float y) {
  const volatile float rounded = x * y;  // no part of a fused one
  return rounded;
}
inline double __dmul_rn(double x, double y) {
  const volatile double rounded = x * y;
  return rounded;
}
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) {
  return std::countr_zero(static_cast<unsigned>(bits)) % 32 + (bits != 0);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline void __nanosleep(unsigned) { norma::hopper::looked(false); }
[[noreturn]] inline void __trap() { norma::hopper::trap(); }

template <class T>
T atomicMax(T* there, T value) {
  const T before = *there;
  *there = std::max(before, value);
  return before;
}

// Threads that wait for each other.
inline void __syncthreads() { norma::hopper::meet_block(); }
inline int __syncthreads_or(int mine) { return norma::hopper::meet_block_or(mine != 0) ? 1 : 0; }
inline void __syncwarp() { norma::hopper::exchange({}); }

namespace norma::hopper {
/// What a lane of the warp has.
template <class T>
T of_lane(const OfLanes& all, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(Words));
  T value;
  std::memcpy(&value, &all[lane].at[0], sizeof value);
  return value;
}
template <class T>
const OfLanes& exchange_one(T mine) {
  Words words{};
  std::memcpy(&words.at[0], &mine, sizeof mine);
  return exchange(words);
}
}  // namespace norma::hopper
/// Of a lane within the own group of `width`.
template <class T>
T __shfl_sync(unsigned, T mine, int lane, int width = 32) {
  const int first = norma::hopper::thread() % 32 / width * width;
  return norma::hopper::of_lane<T>(norma::hopper::exchange_one(mine),
                                   static_cast<unsigned>(first + lane % width));
}
/// Within groups of `width`, which an xor with less than that never leaves.
template <class T>
T __shfl_xor_sync(unsigned, T mine, int other, [[maybe_unused]] int width = 32) {
  const auto lane = static_cast<unsigned>(norma::hopper::thread() % 32 ^ other);
  return norma::hopper::of_lane<T>(norma::hopper::exchange_one(mine), lane);
}
/// Bits of lanes that say so.
template <class T, class Says>
unsigned lanes_that(T mine, const Says& says) {
  const norma::hopper::OfLanes& all = norma::hopper::exchange_one(mine);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (says(norma::hopper::of_lane<T>(all, lane))) bits |= 1U << lane;
  }
  return bits;
}
inline unsigned __ballot_sync(unsigned, bool mine) {
  return lanes_that(mine ? 1 : 0, [](int other) { return other != 0; });
}
inline bool __all_sync(unsigned all, bool mine) { return __ballot_sync(all, mine) == ~0U; }
inline bool __any_sync(unsigned all, bool mine) { return __ballot_sync(all, mine) != 0; }
template <class T>
unsigned __match_any_sync(unsigned, T mine) {
  return lanes_that(mine, [&](T other) { return other == mine; });
}
template <class T, class Join>
T over_lanes(T mine, const Join& join) {
  const norma::hopper::OfLanes& all = norma::hopper::exchange_one(mine);
  for (unsigned lane = 0; lane < 32; ++lane)
    mine = join(mine, norma::hopper::of_lane<T>(all, lane));
  return mine;
}
template <class T>
T __reduce_min_sync(unsigned, T mine) {
  return over_lanes(mine, [](T one, T other) { return std::min(one, other); });
}
template <class T>
T __reduce_max_sync(unsigned, T mine) {
  return over_lanes(mine, [](T one, T other) { return std::max(one, other); });
}

// The runtime.
enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorStreamCaptureUnsupported
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
using cudaGraphConditionalHandle = unsigned long long;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaGraphCondAssignDefault = 1;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };

struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
  int major;
  int minor;
};
struct cudaFuncAttributes {};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout
};
inline constexpr int cudaSharedmemCarveoutDefault = -1;
inline constexpr int cudaSharedmemCarveoutMaxShared = 100;

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t code);
const char* cudaGetErrorName(cudaError_t code);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetPCIBusId(char* to, int bytes, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);

enum cudaGraphNodeType { cudaGraphNodeTypeConditional };
enum cudaGraphConditionalNodeType { cudaGraphCondTypeIf };
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim;
  dim3 blockDim;
  void** kernelParams;
};
struct cudaGraphNodeParams {
  cudaGraphNodeType type;
  struct {
    cudaGraphConditionalHandle handle;
    cudaGraphConditionalNodeType type;
    unsigned size;
    cudaGraph_t* phGraph_out;
  } conditional;
};
struct cudaGraphEdgeData;
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                             cudaGraph_t graph,
                                             unsigned value,
                                             unsigned flags);
void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value);
/// Of a kernel that takes a handle and a pointer to a number.
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node,
                                   cudaGraph_t graph,
                                   const cudaGraphNode_t* after,
                                   std::size_t count,
                                   const cudaKernelNodeParams* kernel);
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node,
                             cudaGraph_t graph,
                             const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges,
                             std::size_t count,
                             cudaGraphNodeParams* params);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream,
                                          cudaGraph_t graph,
                                          const cudaGraphNode_t* after,
                                          const cudaGraphEdgeData* edges,
                                          std::size_t count,
                                          cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);

enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative, cudaLaunchAttributeClusterDimension };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int cooperative;
    dim3 clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*)(Parameters...), cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)(Parameters...)) {
  return cudaSuccess;
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveClusters(int* count,
                                           void (*)(Parameters...),
                                           const cudaLaunchConfig_t*) {
  *count = 1;
  return cudaSuccess;
}

namespace norma::hopper {
/// Does it, or takes it down for a graph.
cudaError_t queue(std::function<void()> work);
/// The same with a kernel.
cudaError_t queue_kernel(const cudaLaunchConfig_t& config,
                         const void* kernel,
                         std::function<void()> thread);
}  // namespace norma::hopper
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  std::tuple<std::decay_t<Parameters>...> kept(static_cast<Parameters>(arguments)...);
  return norma::hopper::queue_kernel(
      *config, reinterpret_cast<const void*>(kernel), [kernel, kept] { std::apply(kernel, kept); });
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
