#include "norma/kernels/tokens.h"

#include <algorithm>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

/// to (+)= factor · from
void put_row(const float* __restrict from, float factor, Index n, float* __restrict to, Into into) {
  with_into(into, [&](auto add) {
    for (Index c = 0; c < n; ++c) put<add>(to[c], factor * from[c]);
  });
}

}  // namespace

void run(Cpu, const PrependForward<float>& a) {
  const Index cols = a.y.cols;
  for_each_row(a.y.rows, cols, [&](Index r) {
    const Index sequence = r / (a.tokens + 1);
    const Index t = r % (a.tokens + 1);
    const float* from = t == 0 ? a.token : a.x.row(sequence * a.tokens + t - 1);
    std::copy(from, from + cols, a.y.row(r));
  });
}

void run(Cpu, const PrependBackward<float>& a) {
  const Index cols = a.dy.cols;
  const Index sequences = a.dy.rows / (a.tokens + 1);
  if (a.dx) {
    for_each_row(sequences * a.tokens, cols, [&](Index r) {
      const Index from = r / a.tokens * (a.tokens + 1) + 1 + r % a.tokens;
      put_row(a.dy.row(from), 1.0f, cols, a.dx.row(r), a.dx_into);
    });
  }
  if (a.dtoken == nullptr) return;
  for (Index s = 0; s < sequences; ++s) {
    const Into into = s == 0 ? a.dtoken_into : Into::add;
    put_row(a.dy.row(s * (a.tokens + 1)), 1.0f, cols, a.dtoken, into);
  }
}

void run(Cpu, const AddPositions<float>& a) {
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    const float* __restrict x = a.x.row(r);
    const float* __restrict position = a.positions + (r % a.tokens) * a.x.cols;
    float* __restrict y = a.y.row(r);
    for (Index c = 0; c < a.x.cols; ++c) y[c] = x[c] + position[c];
  });
}

void run(Cpu, const PositionSum<float>& a) {
  const Index cols = a.dy.cols;
  const Index sequences = a.dy.rows / a.tokens;
  const auto scale = static_cast<float>(a.scale);
  for_each_row(a.table_rows, cols * sequences, [&](Index r) {
    float* to = a.sums + r * cols;
    const Index t = r - a.first;
    if (t < 0 || t >= a.tokens) {
      if (a.into == Into::set) std::fill(to, to + cols, 0.0f);
      return;
    }
    for (Index s = 0; s < sequences; ++s) {
      put_row(a.dy.row(s * a.tokens + t), scale, cols, to, s == 0 ? a.into : Into::add);
    }
  });
}

void run(Cpu, const PoolForward<float>& a) {
  const Index cols = a.y.cols;
  const auto factor = static_cast<float>(a.factor);
  for_each_row(a.y.rows, cols * (a.end - a.begin), [&](Index s) {
    float* y = a.y.row(s);
    for (Index t = a.begin; t < a.end; ++t) {
      put_row(a.x.row(s * a.tokens + t), 1.0f, cols, y, t == a.begin ? Into::set : Into::add);
    }
    for (Index c = 0; c < cols; ++c) y[c] *= factor;
  });
}

void run(Cpu, const PoolBackward<float>& a) {
  const Index cols = a.dx.cols;
  const auto factor = static_cast<float>(a.factor);
  for_each_row(a.dx.rows, cols, [&](Index r) {
    const Index t = r % a.tokens;
    if (t >= a.begin && t < a.end) {
      put_row(a.dy.row(r / a.tokens), factor, cols, a.dx.row(r), a.dx_into);
    } else if (a.dx_into == Into::set) {
      std::fill(a.dx.row(r), a.dx.row(r) + cols, 0.0f);
    }
  });
}

}  // namespace norma::kernels
