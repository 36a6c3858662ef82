#include "norma/device/cuda/runtime.h"
#include "norma/device/device.h"

namespace norma::device {

Graph::~Graph() { clear(); }

void Graph::clear() noexcept {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
  executable_ = nullptr;
}

void Graph::begin() {
  // Thread-local: a call that would wait or allocate here is an error instead of a wrong graph.
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "starting a graph");
}

void Graph::abandon() noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream(), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the reason is already on its way
}

void Graph::end() {
  clear();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream(), &graph), "ending a graph");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "making a graph ready");
  executable_ = executable;
}

void Graph::launch() const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream()), "launching a graph");
}

}  // namespace norma::device
