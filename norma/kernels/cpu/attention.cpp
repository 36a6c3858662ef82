#include "norma/kernels/attention.h"

#include <omp.h>

#include "norma/kernels/gemm.h"
#include "norma/kernels/parallel.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

namespace {

// Query rows handled together: their logits (kQueryBlock x keys) stay in the second-level cache for
// contexts up to about 2 k, and a causal block skips the keys after its last row.
constexpr Index kQueryBlock = 64;

/// One head of one sequence: where its rows are.
struct Head {
  Index b, h, kv;
};

/// A block of query rows: [first, first + count), of which none sees a key beyond `keys`.
struct Block {
  Index first, count, keys;
};

Block block_at(const AttentionShape& s, Index b, Index first) {
  const Index count = std::min(kQueryBlock, s.queries - first);
  Index keys = 0;
  for (Index i = first; i < first + count; ++i) keys = std::max(keys, s.visible(b, i));
  return {first, count, keys};
}

/// z (count, keys) = factor_i · q_i · k_j, then softcap. `z` rows are `block.keys` apart.
template <class Args>
void logits(const Args& a, Head at, Block block, float* z) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  run(CpuThread{},
      Gemm<float>{.trans_b = true,
                  .m = block.count,
                  .n = block.keys,
                  .k = D,
                  .a = a.q.row(at.b * s.queries + block.first) + at.h * D,
                  .lda = a.q.stride,
                  .b = a.k.row(at.b * s.key_rows) + at.kv * D,
                  .ldb = a.k.stride,
                  .c = z,
                  .ldc = block.keys});
  for (Index i = 0; i < block.count; ++i) {
    const Index seen = s.visible(at.b, block.first + i);
    const float factor = a.head_factor[at.h] * static_cast<float>(s.row_factor(seen));
    float* __restrict row = z + i * block.keys;
    if (s.softcap > 0) {
      const auto cap = static_cast<float>(s.softcap);
      const float inside = factor / cap;
      for (Index j = 0; j < seen; ++j) row[j] = cap * tanhf(row[j] * inside);
    } else {
      for (Index j = 0; j < seen; ++j) row[j] *= factor;
    }
  }
}

/// Adds rows of a product to, or sets, `count` rows of a strided matrix.
template <class F>
void put_rows(Index count, Index width, Into into, float* to, Index to_stride, F&& value) {
  with_into(into, [&](auto add) {
    for (Index i = 0; i < count; ++i) {
      float* __restrict row = to + i * to_stride;
      for (Index c = 0; c < width; ++c) put<add>(row[c], value(i, c));
    }
  });
}

void forward_head(const AttentionForward<float>& a, Head at, float* z) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  for (Index first = 0; first < s.queries; first += kQueryBlock) {
    const Block block = block_at(s, at.b, first);
    float* o = a.o.row(at.b * s.queries + first) + at.h * D;
    float* lse = a.lse + (at.b * s.heads + at.h) * s.queries + first;
    if (block.keys == 0) {
      put_rows(block.count, D, Into::set, o, a.o.stride, [](Index, Index) { return 0.0f; });
      std::fill(lse, lse + block.count, 0.0f);
      continue;
    }
    logits(a, at, block, z);
    float inverse[kQueryBlock];
    for (Index i = 0; i < block.count; ++i) {
      const Index seen = s.visible(at.b, first + i);
      float* __restrict row = z + i * block.keys;
      float most = seen == 0 ? 0.0f : row[0];
#pragma omp simd reduction(max : most)
      for (Index j = 0; j < seen; ++j) most = std::max(most, row[j]);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (Index j = 0; j < seen; ++j) {
        row[j] = expf(row[j] - most);
        sum += row[j];
      }
      for (Index j = seen; j < block.keys; ++j) row[j] = 0;
      lse[i] = seen == 0 ? 0.0f : most + std::log(sum);
      inverse[i] = seen == 0 ? 0.0f : 1 / sum;
    }
    run(CpuThread{},
        Gemm<float>{.m = block.count,
                    .n = D,
                    .k = block.keys,
                    .a = z,
                    .lda = block.keys,
                    .b = a.v.row(at.b * s.key_rows) + at.kv * D,
                    .ldb = a.v.stride,
                    .c = o,
                    .ldc = a.o.stride});
    for (Index i = 0; i < block.count; ++i) {
      float* __restrict row = o + i * a.o.stride;
      for (Index c = 0; c < D; ++c) row[c] *= inverse[i];
    }
  }
}

/// Scratch of one thread in backward.
struct BackwardScratch {
  BackwardScratch(const AttentionShape& s, float* memory)
      : p(memory),
        ds(p + kQueryBlock * s.keys),
        dq(ds + kQueryBlock * s.keys),
        scaled_q(dq + kQueryBlock * s.head_width) {}
  float* p;         // probabilities (block, keys)
  float* ds;        // gradient of the logits (block, keys)
  float* dq;        // (block, head_width)
  float* scaled_q;  // factor_i · q_i (block, head_width)
};

/// Turns logits into probabilities and dp into the gradient of factor·q·k.
void softmax_backward(const AttentionBackward<float>& a,
                      Head at,
                      Block block,
                      const BackwardScratch& scratch) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  const auto inverse_cap = static_cast<float>(s.softcap > 0 ? 1 / s.softcap : 0);
  for (Index i = 0; i < block.count; ++i) {
    const Index query = at.b * s.queries + block.first + i;
    const Index seen = s.visible(at.b, block.first + i);
    const float* __restrict dout = a.dout.row(query) + at.h * D;
    const float* __restrict o = a.o.row(query) + at.h * D;
    float delta = 0;
#pragma omp simd reduction(+ : delta)
    for (Index c = 0; c < D; ++c) delta += dout[c] * o[c];
    const float lse = a.lse[(at.b * s.heads + at.h) * s.queries + block.first + i];
    float* __restrict p = scratch.p + i * block.keys;
    float* __restrict ds = scratch.ds + i * block.keys;
    for (Index j = 0; j < seen; ++j) {
      const float share = p[j] * inverse_cap;  // 0 without softcap
      p[j] = expf(p[j] - lse);
      ds[j] = p[j] * (ds[j] - delta) * (1 - share * share);
    }
    for (Index j = seen; j < block.keys; ++j) {
      p[j] = 0;
      ds[j] = 0;
    }
  }
}

void backward_block(const AttentionBackward<float>& a,
                    Head at,
                    Block block,
                    const BackwardScratch& scratch,
                    float* dfactor) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  const Index query = at.b * s.queries + block.first;
  const Index key = at.b * s.key_rows;
  const float* dout = a.dout.row(query) + at.h * D;
  logits(a, at, block, scratch.p);
  run(CpuThread{},
      Gemm<float>{.trans_b = true,
                  .m = block.count,
                  .n = block.keys,
                  .k = D,
                  .a = dout,
                  .lda = a.dout.stride,
                  .b = a.v.row(key) + at.kv * D,
                  .ldb = a.v.stride,
                  .c = scratch.ds,
                  .ldc = block.keys});
  softmax_backward(a, at, block, scratch);
  if (a.dv) {
    run(CpuThread{},
        Gemm<float>{.trans_a = true,
                    .m = block.keys,
                    .n = D,
                    .k = block.count,
                    .a = scratch.p,
                    .lda = block.keys,
                    .b = dout,
                    .ldb = a.dout.stride,
                    .c = a.dv.row(key) + at.kv * D,
                    .ldc = a.dv.stride,
                    .beta = 1});
  }
  float factors[kQueryBlock];
  for (Index i = 0; i < block.count; ++i) {
    const Index seen = s.visible(at.b, block.first + i);
    factors[i] = a.head_factor[at.h] * static_cast<float>(s.row_factor(seen));
  }
  const auto q_row = [&](Index i) { return a.q.row(query + i) + at.h * D; };
  if (a.dk) {
    for (Index i = 0; i < block.count; ++i) {
      const float* __restrict q = q_row(i);
      float* __restrict scaled = scratch.scaled_q + i * D;
      for (Index c = 0; c < D; ++c) scaled[c] = factors[i] * q[c];
    }
    run(CpuThread{},
        Gemm<float>{.trans_a = true,
                    .m = block.keys,
                    .n = D,
                    .k = block.count,
                    .a = scratch.ds,
                    .lda = block.keys,
                    .b = scratch.scaled_q,
                    .ldb = D,
                    .c = a.dk.row(key) + at.kv * D,
                    .ldc = a.dk.stride,
                    .beta = 1});
  }
  if (!a.dq && dfactor == nullptr) return;
  run(CpuThread{},
      Gemm<float>{.m = block.count,
                  .n = D,
                  .k = block.keys,
                  .a = scratch.ds,
                  .lda = block.keys,
                  .b = a.k.row(key) + at.kv * D,
                  .ldb = a.k.stride,
                  .c = scratch.dq,
                  .ldc = D});
  if (dfactor != nullptr) {
    for (Index i = 0; i < block.count; ++i) {
      const Index seen = s.visible(at.b, block.first + i);
      float dot = 0;
      for (Index c = 0; c < D; ++c) dot += q_row(i)[c] * scratch.dq[i * D + c];
      *dfactor += dot * static_cast<float>(s.row_factor(seen));
    }
  }
  if (a.dq) {
    put_rows(
        block.count, D, a.dq_into, a.dq.row(query) + at.h * D, a.dq.stride, [&](Index i, Index c) {
          return factors[i] * scratch.dq[i * D + c];
        });
  }
}

void zero_head(Rows<float> rows, Index first, Index count, Index at, Index width) {
  for (Index r = first; r < first + count; ++r) {
    std::fill(rows.row(r) + at, rows.row(r) + at + width, 0.0f);
  }
}

/// All query heads that share one key/value head, in order: dk and dv belong to this task alone.
void backward_kv_head(const AttentionBackward<float>& a, Index b, Index kv, float* memory) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  const BackwardScratch scratch(s, memory);
  if (a.dk && a.dk_into == Into::set) zero_head(a.dk, b * s.key_rows, s.key_rows, kv * D, D);
  if (a.dv && a.dv_into == Into::set) zero_head(a.dv, b * s.key_rows, s.key_rows, kv * D, D);
  const Index group = s.heads / s.kv_heads;
  for (Index h = kv * group; h < (kv + 1) * group; ++h) {
    float* dfactor = a.dhead_factor == nullptr ? nullptr : a.dhead_factor + b * s.heads + h;
    if (dfactor != nullptr) *dfactor = 0;
    for (Index first = 0; first < s.queries; first += kQueryBlock) {
      const Block block = block_at(s, b, first);
      if (block.keys > 0) {
        backward_block(a, {b, h, kv}, block, scratch, dfactor);
      } else if (a.dq && a.dq_into == Into::set) {
        zero_head(a.dq, b * s.queries + first, block.count, h * D, D);
      }
    }
  }
}

}  // namespace

// By the room for keys and not by their number: while a cache fills, the size stays the same.
Index forward_scratch(const AttentionShape& shape) {
  return std::min(kQueryBlock, shape.queries) * shape.key_rows;
}

Index backward_scratch(const AttentionShape& shape) {
  return 2 * kQueryBlock * (shape.keys + shape.head_width);
}

void run(Cpu, const AttentionForward<float>& a) {
  const AttentionShape& s = a.shape;
  const Index scratch = forward_scratch(s);
#pragma omp parallel for collapse(2) schedule(static)
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      forward_head(
          a, {b, h, h / (s.heads / s.kv_heads)}, a.scratch + omp_get_thread_num() * scratch);
    }
  }
}

void run(Cpu, const AttentionBackward<float>& a) {
  const AttentionShape& s = a.shape;
  const Index scratch = backward_scratch(s);
#pragma omp parallel for collapse(2) schedule(static)
  for (Index b = 0; b < s.batch; ++b) {
    for (Index kv = 0; kv < s.kv_heads; ++kv) {
      backward_kv_head(a, b, kv, a.scratch + omp_get_thread_num() * scratch);
    }
  }
}

}  // namespace norma::kernels
