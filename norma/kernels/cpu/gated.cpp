#include "norma/kernels/gated.h"

#include <algorithm>

#include "norma/kernels/cpu/activation_math.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

// Columns go through in blocks whose intermediate values stay in the first-level cache, so that
// every loop is simple enough to vectorize whatever is wanted or absent.
constexpr Index kBlock = 256;

/// to (+)= factor · gains · x, with gains 1 where absent.
void put_scaled(const float* __restrict x,
                const float* __restrict gains,
                float factor,
                Index n,
                float* __restrict to,
                Into into) {
  with_into(into, [&](auto add) {
    if (gains == nullptr) {
      for (Index c = 0; c < n; ++c) put<add>(to[c], factor * x[c]);
    } else {
      for (Index c = 0; c < n; ++c) put<add>(to[c], factor * gains[c] * x[c]);
    }
  });
}

/// sums += factor · x · y
void add_product(const float* __restrict x,
                 const float* __restrict y,
                 float factor,
                 Index n,
                 float* __restrict sums) {
  for (Index c = 0; c < n; ++c) sums[c] += factor * x[c] * y[c];
}

const float* shifted(const float* gains, Index by) {
  return gains == nullptr ? nullptr : gains + by;
}

template <Activation kAct>
void forward_row(const GatedForward<float>& a, Index r) {
  const auto u_factor = static_cast<float>(a.u_factor);
  const auto g_factor = static_cast<float>(a.g_factor);
  float gate[kBlock];
  float up[kBlock];
  for (Index at = 0; at < a.u.cols; at += kBlock) {
    const Index n = std::min(kBlock, a.u.cols - at);
    put_scaled(a.g.row(r) + at, shifted(a.s_v, at), g_factor, n, gate, Into::set);
    put_scaled(a.u.row(r) + at, shifted(a.s_u, at), u_factor, n, up, Into::set);
    float* __restrict y = a.y.row(r) + at;
    for (Index c = 0; c < n; ++c) y[c] = up[c] * fast_value<kAct>(gate[c]);
  }
}

template <Activation kAct>
void backward_row(const GatedBackward<float>& a, Index r, float* sums_u, float* sums_v) {
  const auto u_factor = static_cast<float>(a.u_factor);
  const auto g_factor = static_cast<float>(a.g_factor);
  float gate[kBlock];
  float up[kBlock];
  float opened[kBlock];  // dy · act(gate)
  float dgate[kBlock];
  for (Index at = 0; at < a.u.cols; at += kBlock) {
    const Index n = std::min(kBlock, a.u.cols - at);
    const float* u = a.u.row(r) + at;
    const float* g = a.g.row(r) + at;
    const float* __restrict dy = a.dy.row(r) + at;
    const float* s_u = shifted(a.s_u, at);
    const float* s_v = shifted(a.s_v, at);
    put_scaled(g, s_v, g_factor, n, gate, Into::set);
    put_scaled(u, s_u, u_factor, n, up, Into::set);
    for (Index c = 0; c < n; ++c) {
      opened[c] = dy[c] * fast_value<kAct>(gate[c]);
      dgate[c] = dy[c] * up[c] * fast_slope<kAct>(gate[c]);
    }
    if (a.du) put_scaled(opened, s_u, u_factor, n, a.du.row(r) + at, a.du_into);
    if (a.dg) put_scaled(dgate, s_v, g_factor, n, a.dg.row(r) + at, a.dg_into);
    if (sums_u != nullptr) add_product(opened, u, u_factor, n, sums_u + at);
    if (sums_v != nullptr) add_product(dgate, g, g_factor, n, sums_v + at);
  }
}

/// Calls f with the gate's activation as a constant.
template <class F>
void with_gate(Activation act, F&& f) {
  if (act == Activation::silu) {
    f(std::integral_constant<Activation, Activation::silu>{});
  } else {
    f(std::integral_constant<Activation, Activation::gelu_tanh>{});
  }
}

}  // namespace

void run(Cpu, const GatedForward<float>& a) {
  with_gate(a.act, [&](auto act) {
    constexpr Activation kAct = decltype(act)::value;
    for_each_row(a.u.rows, a.u.cols, [&](Index r) { forward_row<kAct>(a, r); });
  });
}

void run(Cpu, const GatedBackward<float>& a) {
  const Index cols = a.u.cols;
  const RowChunks chunks(a.u.rows);
  with_gate(a.act, [&](auto act) {
    constexpr Activation kAct = decltype(act)::value;
    for_each_chunk(chunks, cols, [&](Index chunk, Index begin, Index end) {
      float* sums_u = a.ds_u == nullptr ? nullptr : a.partials_u + chunk * cols;
      float* sums_v = a.ds_v == nullptr ? nullptr : a.partials_v + chunk * cols;
      if (sums_u != nullptr) std::fill(sums_u, sums_u + cols, 0.0f);
      if (sums_v != nullptr) std::fill(sums_v, sums_v + cols, 0.0f);
      for (Index r = begin; r < end; ++r) backward_row<kAct>(a, r, sums_u, sums_v);
    });
  });
  if (a.ds_u != nullptr) sum_partials(a.partials_u, chunks.count, cols, a.ds_u, a.ds_u_into);
  if (a.ds_v != nullptr) sum_partials(a.partials_v, chunks.count, cols, a.ds_v, a.ds_v_into);
}

}  // namespace norma::kernels
