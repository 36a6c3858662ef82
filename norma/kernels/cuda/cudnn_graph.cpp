#include "norma/kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <string>

#include "norma/base/text.h"
#include "norma/device/cuda/runtime.h"
#include "norma/device/device.h"

namespace norma::kernels::cudnn {

namespace {

std::string sentence(cudnnStatus_t status, std::string_view doing) {
  char detail[512] = {};
  cudnnGetLastErrorString(detail, sizeof detail);
  return say("cuDNN: ", doing, " failed: ", cudnnGetErrorString(status), ". ", detail);
}
void check(cudnnStatus_t status, std::string_view doing) {
  if (status != CUDNN_STATUS_SUCCESS) throw Error(sentence(status, doing));
}
void ask(cudnnStatus_t status, std::string_view doing) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refusal(sentence(status, doing));
}

/// Made once, on the stream of everything else; never destroyed: the driver may be gone.
cudnnHandle_t handle() {
  static const cudnnHandle_t kHandle = [] {
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "starting");
    check(cudnnSetStream(made, device::stream()), "taking the stream");
    return made;
  }();
  return kHandle;
}

constexpr std::int64_t kAlignment = 16;

/// Memory that plans use one after the other, as everything runs on one stream. What a plan was
/// given stays valid when a later one needs more: a captured step has the address.
void* workspace(std::int64_t bytes) {
  static void* memory = nullptr;
  static std::int64_t size = 0;
  if (bytes > size) {
    memory = device::allocate(static_cast<std::size_t>(bytes));
    size = bytes;
  }
  return memory;
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  ask(cudnnBackendCreateDescriptor(type, &raw_), "making a descriptor");
}
Descriptor::~Descriptor() {
  if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
}
void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.raw_);
}
void Descriptor::set_raw(cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type,
                         std::int64_t count,
                         const void* values) {
  ask(cudnnBackendSetAttribute(raw_, name, type, count, values), "describing a graph");
}
std::int64_t Descriptor::get(cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type,
                             std::int64_t most,
                             void* values) const {
  std::int64_t count = 0;
  ask(cudnnBackendGetAttribute(raw_, name, type, most, &count, values), "asking about a graph");
  return count;
}
void Descriptor::finalize() { ask(cudnnBackendFinalize(raw_), "completing a description"); }

Graph::Tensor Graph::add(Kind kind, cudnnDataType_t type, const Layout& layout) {
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto place = static_cast<Tensor>(tensors_.size());
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::int64_t{place} + 1);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  made.set(
      CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(layout.dims));
  made.set(
      CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(layout.strides));
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, kind == Kind::between);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, kind == Kind::scalar);
  made.finalize();
  tensors_.push_back(parts_.size());
  parts_.push_back(std::move(made));
  stored_.push_back(kind != Kind::between);
  return place;
}
Graph::Tensor Graph::stored(cudnnDataType_t type, const Layout& layout) {
  return add(Kind::stored, type, layout);
}
Graph::Tensor Graph::between(cudnnDataType_t type, const Layout& layout) {
  return add(Kind::between, type, layout);
}
Graph::Tensor Graph::scalar() {
  return add(Kind::scalar, CUDNN_DATA_FLOAT, Layout::packed({1, 1, 1, 1}));
}
const Descriptor& Graph::at(Tensor tensor) const {
  return parts_[tensors_[static_cast<std::size_t>(tensor)]];
}

void Graph::add_operation(Descriptor operation) {
  operation.finalize();
  operations_.push_back(parts_.size());
  parts_.push_back(std::move(operation));
}
void Graph::add_pointwise(Descriptor rule, std::span<const Tensor> inputs, Tensor y) {
  rule.finalize();
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Descriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, rule);
  for (std::size_t i = 0; i < inputs.size(); ++i) made.set(kInputs[i], at(inputs[i]));
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  parts_.push_back(std::move(rule));
  add_operation(std::move(made));
}
void Graph::pointwise(cudnnPointwiseMode_t mode,
                      std::initializer_list<Tensor> inputs,
                      Tensor y,
                      cudnnDataType_t compute) {
  Descriptor rule(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  rule.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  rule.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  add_pointwise(std::move(rule), {inputs.begin(), inputs.size()}, y);
}
void Graph::index(int axis, Tensor x, Tensor y) {
  Descriptor rule(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  rule.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  rule.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  rule.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, std::int64_t{axis});
  add_pointwise(std::move(rule), {&x, 1}, y);
}
void Graph::multiply(Tensor a, Tensor b, Tensor c) {
  Descriptor rule(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  rule.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  rule.finalize();
  Descriptor made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, rule);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c));
  parts_.push_back(std::move(rule));
  add_operation(std::move(made));
}
void Graph::reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor y) {
  Descriptor rule(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  rule.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation);
  rule.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  rule.finalize();
  Descriptor made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, rule);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  parts_.push_back(std::move(rule));
  add_operation(std::move(made));
}

namespace {

/// Whether an engine's bits are the same in every call.
bool repeats(const Descriptor& config) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                        CUDNN_TYPE_NUMERICAL_NOTE,
                                        CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                        notes);
  cudnnBackendNumericalNote_t* const end =
      notes + std::min<std::int64_t>(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::find(notes, end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
}

/// Engines for a graph, the most promising first.
std::vector<Descriptor> configurations(const Descriptor& graph) {
  Descriptor advice(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  advice.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  advice.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  advice.finalize();
  const std::int64_t count =
      advice.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  }
  const std::int64_t given =
      advice.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  while (static_cast<std::int64_t>(found.size()) > given) found.pop_back();
  return found;
}

}  // namespace

Plan Graph::plan() && {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const std::size_t i : operations_) operations.push_back(parts_[i].raw());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS,
            CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const cudnnBackendDescriptor_t>(operations));
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle());
  graph.finalize();
  std::string last = "cuDNN has no engine for this graph whose bits repeat.";
  for (Descriptor& config : configurations(graph)) {
    try {
      if (!repeats(config)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle());
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      plan.finalize();
      std::int64_t bytes = 0;
      plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
      Plan made;
      made.workspace_ = workspace(bytes);
      made.parts_ = std::move(parts_);
      made.parts_.push_back(std::move(graph));
      made.parts_.push_back(std::move(config));
      made.parts_.push_back(std::move(plan));
      made.stored_ = std::move(stored_);
      return made;
    } catch (const Refusal& refusal) {  // the next engine may
      last = refusal.what();
    }
  }
  throw Refusal(last);
}

void Plan::execute(std::span<void* const> addresses) const {
  std::vector<std::int64_t> names;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    if (!stored_[i]) continue;
    names.push_back(static_cast<std::int64_t>(i) + 1);
    pointers.push_back(addresses[i]);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(
      CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(names));
  pack.set(
      CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_);
  pack.finalize();
  check(cudnnBackendExecute(handle(), parts_.back().raw(), pack.raw()), "running a graph");
}

}  // namespace norma::kernels::cudnn
