#include "norma/kernels/residual.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

/// What one α makes of the two sides: y = from_x·x + from_b·b, and the slope of y in α_raw is
/// turn_x·x + turn_step·(b − x).
struct Mix {
  float from_x;
  float from_b;
  float turn_x;
  float turn_step;
};

/// In double: 1 − 2α would lose its digits near α = ½, and this runs once per column, not per row.
Mix mix_of(float alpha_raw, double mult) {
  const double product = mult * static_cast<double>(alpha_raw);
  const double alpha = std::abs(product);
  const double nu = 1 / std::sqrt(alpha * alpha + (1 - alpha) * (1 - alpha));
  // The slope in α is ν³·((1−α)·b − α·x). Written with b − x it keeps its digits where b is near x.
  const double turn = (product < 0 ? -mult : mult) * nu * nu * nu;
  return {.from_x = static_cast<float>(nu * (1 - alpha)),
          .from_b = static_cast<float>(nu * alpha),
          .turn_x = static_cast<float>(turn * (1 - 2 * alpha)),
          .turn_step = static_cast<float>(turn * (1 - alpha))};
}

/// dst (+)= factor · src
void put_product(const float* __restrict factor,
                 const float* __restrict src,
                 Index n,
                 float* __restrict dst,
                 Into into) {
  with_into(into, [&](auto add) {
    for (Index c = 0; c < n; ++c) put<add>(dst[c], factor[c] * src[c]);
  });
}

/// sums += dy · (turn_x·x + turn_step·(b − x))
void add_turn(const float* __restrict dy,
              const float* __restrict x,
              const float* __restrict b,
              const float* __restrict turn_x,
              const float* __restrict turn_step,
              Index n,
              float* __restrict sums) {
  for (Index c = 0; c < n; ++c) {
    sums[c] += dy[c] * (turn_x[c] * x[c] + turn_step[c] * (b[c] - x[c]));
  }
}

}  // namespace

void run(Cpu, const ResidualForward<float>& a) {
  const auto scale = static_cast<float>(a.scale);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    const float* __restrict x = a.x.row(r);
    const float* __restrict b = a.b.row(r);
    float* __restrict y = a.y.row(r);
    if (a.lambda == nullptr) {
      for (Index c = 0; c < a.x.cols; ++c) y[c] = scale * x[c] + b[c];
    } else {
      const float* __restrict lambda = a.lambda;
      for (Index c = 0; c < a.x.cols; ++c) y[c] = scale * lambda[c] * x[c] + b[c];
    }
  });
}

void run(Cpu, const AlerpForward<float>& a) {
  const Index cols = a.x.cols;
  float* from_x = a.coefficients;
  float* from_b = from_x + cols;
  for (Index c = 0; c < cols; ++c) {
    const Mix mix = mix_of(a.alpha_raw[a.alphas == 1 ? 0 : c], a.mult);
    from_x[c] = mix.from_x;
    from_b[c] = mix.from_b;
  }
  for_each_row(a.x.rows, cols, [&](Index r) {
    const float* __restrict p = from_x;
    const float* __restrict q = from_b;
    const float* __restrict x = a.x.row(r);
    const float* __restrict b = a.b.row(r);
    float* __restrict y = a.y.row(r);
    for (Index c = 0; c < cols; ++c) y[c] = p[c] * x[c] + q[c] * b[c];
  });
}

void run(Cpu, const AlerpBackward<float>& a) {
  const Index cols = a.dy.cols;
  float* from_x = a.coefficients;
  float* from_b = from_x + cols;
  float* turn_x = from_b + cols;
  float* turn_step = turn_x + cols;
  for (Index c = 0; c < cols; ++c) {
    const Mix mix = mix_of(a.alpha_raw[a.alphas == 1 ? 0 : c], a.mult);
    from_x[c] = mix.from_x;
    from_b[c] = mix.from_b;
    turn_x[c] = mix.turn_x;
    turn_step[c] = mix.turn_step;
  }
  const RowChunks chunks(a.dy.rows);
  for_each_chunk(chunks, cols, [&](Index chunk, Index begin, Index end) {
    float* partial = a.dalpha == nullptr ? nullptr : a.partials + chunk * cols;
    if (partial != nullptr) std::fill(partial, partial + cols, 0.0f);
    for (Index r = begin; r < end; ++r) {
      const float* dy = a.dy.row(r);
      if (partial != nullptr) {
        add_turn(dy, a.x.row(r), a.b.row(r), turn_x, turn_step, cols, partial);
      }
      if (a.dx) put_product(from_x, dy, cols, a.dx.row(r), a.dx_into);
      if (a.db) put_product(from_b, dy, cols, a.db.row(r), a.db_into);
    }
  });
  if (a.dalpha == nullptr) return;
  if (a.alphas == cols) {
    sum_partials(a.partials, chunks.count, cols, a.dalpha, a.dalpha_into);
    return;
  }
  double sum = 0;  // one number out of many terms of both signs
  for (Index i = 0; i < chunks.count * cols; ++i) sum += static_cast<double>(a.partials[i]);
  *a.dalpha = static_cast<float>(a.dalpha_into == Into::add ? *a.dalpha + sum : sum);
}

}  // namespace norma::kernels
