// cuDNN runs attention as one kernel when a graph has the form that its engines look for: the plain
// products, the softmax step by step, and in backward every product of the chain rule. The graph is
// that of the formula in ops/attention.h; nothing in it is stored but what is named `stored`.
#include "norma/kernels/cuda/cudnn_attention.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "norma/kernels/cuda/cudnn_graph.h"

namespace norma::kernels {

namespace {

using cudnn::Graph;
using cudnn::Layout;
using cudnn::Plan;

constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16;
constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

/// The part of an attention that one execution takes.
struct Slice {
  Index batch;
  Index heads;  // with their kv_heads
};

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
Layout heads_of(const AttentionShape& s, const Slice& slice, Rows<const Bf16> rows, bool kv) {
  const Index heads = kv ? slice.heads / (s.heads / s.kv_heads) : slice.heads;
  return {{slice.batch, heads, s.queries, s.head_width},
          {s.queries * rows.stride, s.head_width, rows.stride, 1}};
}
/// One number per row, as (batch, heads, tokens, 1) of all heads' numbers.
Layout numbers_of(const AttentionShape& s, const Slice& slice) {
  return {{slice.batch, slice.heads, s.queries, 1}, {s.heads * s.queries, s.queries, 1, 1}};
}
Layout square_of(const AttentionShape& s, const Slice& slice) {
  return Layout::packed({slice.batch, slice.heads, s.queries, s.keys});
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
Plan forward_plan(const AttentionForward<Bf16>& a, const Slice& slice) {
  const AttentionShape& s = a.shape;
  const Layout square = square_of(s, slice);
  const Layout column = Layout::packed({slice.batch, slice.heads, s.queries, 1});
  Graph graph;
  const auto q = graph.stored(kBf16, heads_of(s, slice, a.q, false));
  const auto k = graph.stored(kBf16, heads_of(s, slice, a.k, true).transposed());
  const auto v = graph.stored(kBf16, heads_of(s, slice, a.v, true));
  const auto o = graph.stored(kBf16, heads_of(s, slice, a.o, false));
  const auto lse = graph.stored(kFloat, numbers_of(s, slice));
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

/// to (kv heads) = pᵀ·rows, where heads that share a key head are added.
void multiply_transposed(Graph& graph,
                         Graph::Tensor p,
                         Graph::Tensor rows,
                         Graph::Tensor to,
                         const AttentionShape& s,
                         const Slice& slice) {
  const auto turned = graph.between(kBf16, square_of(s, slice).transposed());
  graph.reshape(p, turned);
  if (s.heads == s.kv_heads) return graph.multiply(turned, rows, to);
  const auto all =
      graph.between(kBf16, Layout::packed({slice.batch, slice.heads, s.keys, s.head_width}));
  graph.multiply(turned, rows, all);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, all, to);
}

/// Addresses of the plan: q, k, v, o, dout, lse, delta, dq, dk, dv, scale, one, and with a causal
/// mask the lowest float. dq comes from a product of its own: the form with sums in f32 adds what
/// blocks contribute in the order of their coming.
Plan backward_plan(const AttentionBackward<Bf16>& a, const Slice& slice) {
  const AttentionShape& s = a.shape;
  const Layout square = square_of(s, slice);
  const Layout column = Layout::packed({slice.batch, slice.heads, s.queries, 1});
  const Layout keys = heads_of(s, slice, a.k, true);
  Graph graph;
  const auto q = graph.stored(kBf16, heads_of(s, slice, a.q, false));
  const auto k = graph.stored(kBf16, keys.transposed());
  const auto v = graph.stored(kBf16, heads_of(s, slice, a.v, true).transposed());
  const auto o = graph.stored(kBf16, heads_of(s, slice, a.o, false));
  const auto dout = graph.stored(kBf16, heads_of(s, slice, a.dout, false));
  const auto lse = graph.stored(kFloat, numbers_of(s, slice));
  const auto delta = graph.stored(kFloat, numbers_of(s, slice));
  const auto dq = graph.stored(kBf16, heads_of(s, slice, a.dq, false));
  const auto dk = graph.stored(kBf16, heads_of(s, slice, a.dk, true));
  const auto dv = graph.stored(kBf16, heads_of(s, slice, a.dv, true));
  const auto scale = graph.scalar();
  const auto one = graph.scalar();
  const auto lowest = s.causal ? graph.scalar() : scale;

  const auto products = graph.between(kFloat, heads_of(s, slice, a.o, false));
  graph.pointwise(CUDNN_POINTWISE_MUL, {dout, o}, products);
  const auto sums = graph.between(kFloat, column);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, {sums, one}, delta);  // where dropout's factor would be

  const auto dot = graph.between(kFloat, square);
  graph.multiply(q, k, dot);
  const auto z = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_MUL, {dot, scale}, z);
  auto below = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_SUB, {z, lse}, below);
  if (s.causal) below = mask(graph, below, lowest, square);
  const auto p = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_EXP, {below}, p);
  multiply_transposed(graph, p, dout, dv, s, slice);

  const auto dp = graph.between(kFloat, square);
  graph.multiply(dout, v, dp);
  const auto centered = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_SUB, {dp, delta}, centered);
  const auto dz = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_MUL, {centered, p}, dz);
  const auto ds = graph.between(kFloat, square);
  graph.pointwise(CUDNN_POINTWISE_MUL, {dz, scale}, ds);
  multiply_transposed(graph, ds, q, dk, s, slice);

  const auto k_rows = graph.between(kFloat, keys);
  graph.reshape(k, k_rows);
  graph.multiply(ds, k_rows, dq);
  return std::move(graph).plan();
}

/// The largest divisor of `whole` that is at most `most` and a multiple of `step`.
Index largest_part(Index whole, Index most, Index step = 1) {
  Index part = step;
  for (Index i = step; i <= std::min(whole, most); i += step) {
    if (whole % i == 0) part = i;
  }
  return part;
}
/// Backward keeps a bf16 square for every head of an execution, so that an attention is taken in
/// slices whose squares stay below this. A slice still has some hundred blocks.
constexpr Index kSquareBytes = Index{1} << 29;
Slice backward_slice(const AttentionShape& s) {
  const Index heads = std::max<Index>(1, kSquareBytes / (2 * s.queries * s.keys));
  if (heads >= s.heads) return {largest_part(s.batch, heads / s.heads), s.heads};
  return {1, largest_part(s.heads, heads, s.heads / s.kv_heads)};
}

using Key = std::vector<Index>;
Key key_of(const AttentionShape& s, std::initializer_list<Rows<const Bf16>> all) {
  Key key{s.batch, s.queries, s.heads, s.kv_heads, s.head_width, s.causal ? 1 : 0};
  for (const Rows<const Bf16>& rows : all) key.push_back(rows.stride);
  return key;
}
using Plans = std::map<Key, std::optional<Plan>>;
/// The plan of a shape, made at its first use; null where cuDNN has none, which is remembered.
template <class F>
const Plan* plan_of(Plans& plans, const Key& key, F&& make) {
  const auto [place, fresh] = plans.try_emplace(key);
  if (fresh) {
    try {
      place->second = make();
    } catch (const cudnn::Refusal&) {
      return nullptr;
    }
  }
  return place->second ? &*place->second : nullptr;
}

template <class T>
void* address(Rows<T> rows, Index row, Index column) {
  return const_cast<Bf16*>(rows.row(row) + column);
}

}  // namespace

bool cudnn_attention(const AttentionForward<Bf16>& a) {
  static auto* const kPlans = new Plans;  // never destroyed: the driver may be gone
  const AttentionShape& s = a.shape;
  if (!is_plain(s) || !is_aligned({a.q, a.k, a.v, a.o})) return false;
  const Slice whole{s.batch, s.heads};
  const Plan* const plan =
      plan_of(*kPlans, key_of(s, {a.q, a.k, a.v, a.o}), [&] { return forward_plan(a, whole); });
  if (plan == nullptr) return false;
  auto scale = static_cast<float>(s.uniform_factor);
  float lowest = std::numeric_limits<float>::lowest();
  void* const addresses[] = {address(a.q, 0, 0),
                             address(a.k, 0, 0),
                             address(a.v, 0, 0),
                             address(a.o, 0, 0),
                             a.lse,
                             &scale,
                             &lowest};
  plan->execute(addresses);
  return true;
}

bool cudnn_attention(const AttentionBackward<Bf16>& a) {
  static auto* const kPlans = new Plans;  // never destroyed: the driver may be gone
  const AttentionShape& s = a.shape;
  const bool all_set = a.dq && a.dk && a.dv && a.dq_into == Into::set && a.dk_into == Into::set &&
                       a.dv_into == Into::set && a.dhead_factor == nullptr;
  if (!all_set || !is_plain(s)) return false;
  if (!is_aligned({a.q, a.k, a.v, a.o, a.dout, a.dq, a.dk, a.dv})) return false;
  const Slice slice = backward_slice(s);
  // A slice's numbers must begin at 16 bytes, as the plan was told.
  if ((slice.batch < s.batch || slice.heads < s.heads) && s.queries % 4 != 0) return false;
  const Plan* const plan = plan_of(*kPlans,
                                   key_of(s, {a.q, a.k, a.v, a.o, a.dout, a.dq, a.dk, a.dv}),
                                   [&] { return backward_plan(a, slice); });
  if (plan == nullptr) return false;
  auto scale = static_cast<float>(s.uniform_factor);
  float one = 1;
  float lowest = std::numeric_limits<float>::lowest();
  for (Index b = 0; b < s.batch; b += slice.batch) {
    for (Index h = 0; h < s.heads; h += slice.heads) {
      const Index row = b * s.queries;
      const Index column = h * s.head_width;
      const Index kv_column = h / (s.heads / s.kv_heads) * s.head_width;
      const Index number = (b * s.heads + h) * s.queries;
      void* const addresses[] = {address(a.q, row, column),
                                 address(a.k, row, kv_column),
                                 address(a.v, row, kv_column),
                                 address(a.o, row, column),
                                 address(a.dout, row, column),
                                 const_cast<float*>(a.lse) + number,
                                 a.scratch + number,
                                 address(a.dq, row, column),
                                 address(a.dk, row, kv_column),
                                 address(a.dv, row, kv_column),
                                 &scale,
                                 &one,
                                 &lowest};
      plan->execute(addresses);
    }
  }
  return true;
}

}  // namespace norma::kernels
