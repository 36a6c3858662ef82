// A CUDA runtime whose GPU is the machine of machine.h: what is queued is done before the call
// returns, or taken down for a graph.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

namespace {

using Work = std::vector<std::function<void()>>;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTotalBytes = std::size_t{8} << 30;
constexpr std::size_t kAlignment = 512;

struct State {
  std::map<void*, std::size_t> allocations;
  std::size_t taken = 0;
  cudaGraph_t capture = nullptr;  // where what is queued is taken down
  std::uint64_t launches = 0;
  std::set<const void*> in_clusters;
  cudaError_t last = cudaSuccess;
  std::string failure;
};
State& state() {
  static State* const kState = new State;
  return *kState;
}

cudaError_t failed(cudaError_t code) {
  state().last = code;
  return code;
}

}  // namespace

struct CUevent_st {
  Clock::time_point at;
};
struct CUgraph_st {
  Work work;
  bool own = true;  // not within another
  std::vector<std::unique_ptr<unsigned>> doors;
  std::vector<std::unique_ptr<CUgraph_st>> inner;
  cudaGraph_t self = this;  // for who wants a place where a graph is named
};

namespace norma::hopper {

cudaError_t queue(std::function<void()> work) {
  if (state().capture != nullptr) {
    state().capture->work.push_back(std::move(work));
    return cudaSuccess;
  }
  try {
    work();
  } catch (const std::exception& error) {
    state().failure = error.what();
    return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t queue_kernel(const cudaLaunchConfig_t& config,
                         const void* kernel,
                         std::function<void()> thread) {
  Launch launch{.blocks = config.gridDim,
                .threads = config.blockDim,
                .shared_bytes = config.dynamicSmemBytes};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeCooperative) launch.together = true;
  }
  return queue([launch, kernel, thread = std::move(thread)]() mutable {
    // Now as early as it may be, now as late.
    launch.seed = ++state().launches;
    launch.when = launch.seed % 2 == 0 ? When::late : When::at_once;
    // A kernel says only by what it asks for that its blocks come in pairs.
    if (state().in_clusters.contains(kernel)) launch.cluster = 2;
    try {
      run(launch, thread);
    } catch (const WantsCluster&) {
      state().in_clusters.insert(kernel);
      launch.cluster = 2;
      run(launch, thread);
    }
  });
}

}  // namespace norma::hopper

cudaError_t cudaGetLastError() { return std::exchange(state().last, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "no memory is left" : state().failure.c_str();
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "the host's machine";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  // Four multiprocessors: two clusters, so that each has several tiles.
  *properties = {.name = "the host, as a GPU", .multiProcessorCount = 4, .major = 9, .minor = 0};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return cudaErrorInvalidValue; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kTotalBytes;
  *free = kTotalBytes - state().taken;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *memory = whole > kTotalBytes - state().taken ? nullptr : std::aligned_alloc(kAlignment, whole);
  if (*memory == nullptr) return failed(cudaErrorMemoryAllocation);
  state().allocations[*memory] = whole;
  state().taken += whole;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (const auto at = state().allocations.find(memory); at != state().allocations.end()) {
    state().taken -= at->second;
    state().allocations.erase(at);
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return norma::hopper::queue([=] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemcpyAsync(
    void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return norma::hopper::queue([=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static char streams[8];
  static int made = 0;
  *stream = reinterpret_cast<cudaStream_t>(&streams[made++ % 8]);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return state().capture != nullptr ? failed(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{Clock::now()};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->at = Clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph->own) delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                             cudaGraph_t graph,
                                             unsigned value,
                                             unsigned) {
  graph->doors.push_back(std::make_unique<unsigned>(value));
  *handle = reinterpret_cast<cudaGraphConditionalHandle>(graph->doors.back().get());
  return cudaSuccess;
}
void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
  *reinterpret_cast<unsigned*>(handle) = value;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node,
                                   cudaGraph_t graph,
                                   const cudaGraphNode_t*,
                                   std::size_t,
                                   const cudaKernelNodeParams* kernel) {
  using Kernel = void (*)(cudaGraphConditionalHandle, const std::int32_t*);
  const auto call = reinterpret_cast<Kernel>(kernel->func);
  const auto handle = *static_cast<cudaGraphConditionalHandle*>(kernel->kernelParams[0]);
  const auto* const number = *static_cast<const std::int32_t* const*>(kernel->kernelParams[1]);
  graph->work.emplace_back([=] { call(handle, number); });
  *node = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node,
                             cudaGraph_t graph,
                             const cudaGraphNode_t*,
                             const cudaGraphEdgeData*,
                             std::size_t,
                             cudaGraphNodeParams* params) {
  graph->inner.push_back(std::make_unique<CUgraph_st>());
  cudaGraph_t inner = graph->inner.back().get();
  inner->own = false;
  params->conditional.phGraph_out = &inner->self;
  const auto* const open = reinterpret_cast<const unsigned*>(params->conditional.handle);
  graph->work.emplace_back([=] {
    if (*open == 0) return;
    for (const auto& one : inner->work) one();
  });
  *node = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  cudaGraph_t graph = nullptr;
  cudaGraphCreate(&graph, 0);
  return cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, mode);
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t,
                                          cudaGraph_t graph,
                                          const cudaGraphNode_t*,
                                          const cudaGraphEdgeData*,
                                          std::size_t,
                                          cudaStreamCaptureMode) {
  state().capture = graph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(state().capture, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(graph);  // which stays as long
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  return norma::hopper::queue([executable] {
    for (const auto& one : reinterpret_cast<cudaGraph_t>(executable)->work) one();
  });
}
