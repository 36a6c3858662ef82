// cuDNN runs attention as one kernel when a graph has the form that its engines look for: the plain
// products, and the softmax step by step. The graph is that of the formula in ops/attention.h;
// nothing in it is stored but what is named `stored`.
#include "norma/kernels/cuda/cudnn_attention.h"

#include <limits>
#include <map>
#include <optional>

#include "norma/kernels/cuda/attention_key.h"
#include "norma/kernels/cuda/cudnn_graph.h"

namespace norma::kernels {

namespace {

using cudnn::Graph;
using cudnn::Layout;
using cudnn::Plan;

constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16;
constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

/// The one rule that cuDNN's engines share with us. Below 64 tokens they refuse or are slow.
bool is_plain(const AttentionShape& s) {
  return s.head_width % 8 == 0 && s.head_width <= 128 && s.softcap == 0 && !s.log_length &&
         s.lengths == nullptr && s.uniform_factor != 0 && s.queries == s.keys &&
         s.keys == s.key_rows && s.queries >= 64;
}
bool is_aligned(std::initializer_list<Rows<const Bf16>> all) {
  for (const Rows<const Bf16>& rows : all) {
    if (rows.stride % 8 != 0 || reinterpret_cast<std::uintptr_t>(rows.data) % 16 != 0) return false;
  }
  return true;
}

/// Heads of a matrix of rows, as (batch, heads, tokens, width).
Layout heads_of(const AttentionShape& s, Rows<const Bf16> rows, Index heads) {
  return {{s.batch, heads, s.queries, s.head_width},
          {s.queries * rows.stride, s.head_width, rows.stride, 1}};
}

/// z where the row sees the column, else `lowest`.
Graph::Tensor mask(Graph& graph, Graph::Tensor z, Graph::Tensor lowest, const Layout& square) {
  const Graph::Tensor row = graph.between(CUDNN_DATA_INT32, square);
  graph.index(2, z, row);
  const Graph::Tensor column = graph.between(CUDNN_DATA_INT32, square);
  graph.index(3, z, column);
  const Graph::Tensor sees = graph.between(CUDNN_DATA_BOOLEAN, square);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, sees, CUDNN_DATA_BOOLEAN);
  const Graph::Tensor masked = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {z, lowest, sees}, masked);
  return masked;
}

/// Addresses of the plan: q, k, v, o, lse, scale, and with a causal mask the lowest float.
Plan forward_plan(const AttentionForward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  const Layout square = Layout::packed({s.batch, s.heads, s.queries, s.keys});
  const Layout column = Layout::packed({s.batch, s.heads, s.queries, 1});
  Graph graph;
  const auto q = graph.stored(kBf16, heads_of(s, a.q, s.heads));
  const auto k = graph.stored(kBf16, heads_of(s, a.k, s.kv_heads).transposed());
  const auto v = graph.stored(kBf16, heads_of(s, a.v, s.kv_heads));
  const auto o = graph.stored(kBf16, heads_of(s, a.o, s.heads));
  const auto lse = graph.stored(kFloat, column);
  const auto scale = graph.scalar();
  const auto lowest = s.causal ? graph.scalar() : scale;

  const auto dot = graph.between(kFloat, square);
  graph.multiply(q, k, dot);
  auto z = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_MUL, {dot, scale}, z);
  if (s.causal) z = mask(graph, z, lowest, square);
  const auto most = graph.between(kFloat, column);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, z, most);
  const auto below = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_SUB, {z, most}, below);
  const auto terms = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_EXP, {below}, terms);
  const auto sum = graph.between(kFloat, column);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, terms, sum);
  const auto log = graph.between(kFloat, column);
  graph.pointwise(CUDNN_POINTWISE_LOG, {sum}, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, {most, log}, lse);
  const auto p = graph.between(kBf16, square);
  graph.pointwise(CUDNN_POINTWISE_DIV, {terms, sum}, p);
  graph.multiply(p, v, o);
  return std::move(graph).plan();
}

/// The plan of a shape, made at its first use; null where cuDNN has none, which is remembered.
const Plan* plan_of(const AttentionForward<Bf16>& a) {
  // Never destroyed: the driver may be gone.
  static auto* const kPlans = new std::map<AttentionKey, std::optional<Plan>>;
  const auto [place, fresh] = kPlans->try_emplace(key_of(a));
  if (fresh) {
    try {
      place->second = forward_plan(a);
    } catch (const cudnn::Refusal&) {
      return nullptr;
    }
  }
  return place->second ? &*place->second : nullptr;
}

void* address(Rows<const Bf16> rows) { return const_cast<Bf16*>(rows.data); }

}  // namespace

std::size_t cudnn_version() { return cudnnGetVersion(); }

bool cudnn_attention(const AttentionForward<Bf16>& a) {
  if (!is_plain(a.shape) || !is_aligned({a.q, a.k, a.v, a.o})) return false;
  const Plan* const plan = plan_of(a);
  if (plan == nullptr) return false;
  auto scale = static_cast<float>(a.shape.uniform_factor);
  float lowest = std::numeric_limits<float>::lowest();
  void* const addresses[] = {
      address(a.q), address(a.k), address(a.v), address(a.o), a.lse, &scale, &lowest};
  plan->execute(addresses);
  return true;
}

}  // namespace norma::kernels
