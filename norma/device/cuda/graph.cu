#include "norma/device/cuda/launch.cuh"
#include "norma/device/device.h"

namespace norma::device {

namespace {

cudaGraph_t graph_of(void* pointer) { return static_cast<cudaGraph_t>(pointer); }
// A call that would wait or allocate while work is taken down is an error, not a wrong graph.
constexpr auto kMode = cudaStreamCaptureModeThreadLocal;

__global__ void open_unless_kernel(cudaGraphConditionalHandle door, const std::int32_t* closed) {
  cudaGraphSetConditional(door, *closed == 0 ? 1 : 0);
}

/// A graph within the graph, which runs where the number is 0.
cudaGraph_t behind_door(cudaGraph_t graph, const std::int32_t* unless) {
  constexpr const char* kDoing = "making a graph's condition";
  cudaGraphConditionalHandle door{};
  check(cudaGraphConditionalHandleCreate(&door, graph, 0, cudaGraphCondAssignDefault), kDoing);
  void* arguments[] = {&door, &unless};
  cudaKernelNodeParams look{};
  look.func = reinterpret_cast<void*>(open_unless_kernel);
  look.gridDim = dim3(1);
  look.blockDim = dim3(1);
  look.kernelParams = arguments;
  cudaGraphNode_t looked = nullptr;
  check(cudaGraphAddKernelNode(&looked, graph, nullptr, 0, &look), kDoing);
  cudaGraphNodeParams inner{};
  inner.type = cudaGraphNodeTypeConditional;
  inner.conditional.handle = door;
  inner.conditional.type = cudaGraphCondTypeIf;
  inner.conditional.size = 1;
  cudaGraphNode_t made = nullptr;
  check(cudaGraphAddNode(&made, graph, &looked, nullptr, 1, &inner), kDoing);
  return inner.conditional.phGraph_out[0];
}

}  // namespace

Graph::~Graph() { clear(); }

void Graph::clear() noexcept {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
  if (graph_ != nullptr) cudaGraphDestroy(graph_of(graph_));
  executable_ = nullptr;
  graph_ = nullptr;
}

void Graph::begin(const std::int32_t* unless) {
  clear();
  if (unless == nullptr) return check(cudaStreamBeginCapture(stream(), kMode), "starting a graph");
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "making a graph");
  graph_ = graph;
  cudaGraph_t inner = behind_door(graph, unless);
  check(cudaStreamBeginCaptureToGraph(stream(), inner, nullptr, nullptr, 0, kMode),
        "starting a graph");
}

void Graph::abandon() noexcept {
  cudaGraph_t taken_down = nullptr;
  cudaStreamEndCapture(stream(), &taken_down);
  cudaGetLastError();  // the reason is already on its way
  // A graph within another that broke off is freed by the driver, which would free it again with
  // the other one: that one stays.
  if (graph_ == nullptr && taken_down != nullptr) cudaGraphDestroy(taken_down);
  graph_ = nullptr;
}

void Graph::end() {
  cudaGraph_t taken_down = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream(), &taken_down);
  if (ended != cudaSuccess) graph_ = nullptr;  // as above
  check(ended, "ending a graph");
  if (graph_ == nullptr) graph_ = taken_down;
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph_of(graph_), 0), "making a graph ready");
  executable_ = executable;
}

void Graph::launch() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream()), "launching a graph");
}

}  // namespace norma::device
