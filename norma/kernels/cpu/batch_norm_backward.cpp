// The gradient of batch_norm; forward is in batch_norm.cpp.
#include "norma/kernels/batch_norm.h"
#include "norma/kernels/cpu/batch_norm_columns.h"

namespace norma::kernels {

namespace {

/// Of one position or of all: Σ dy and Σ dy·x̂.
struct Sums {
  double count = 0;
  double dy[kBatchColumns] = {};
  double dot[kBatchColumns] = {};
};

Sums sums_at(const BatchNormBackward<float>& a, Index t, ColumnBlock block) {
  const Index at = a.shape.set_of(t) * a.x.cols + block.begin;
  const float* __restrict mean = a.mean + at;
  const float* __restrict shift = a.shift + at;
  const float* __restrict rstd = a.rstd + at;
  Sums s;
  for_valid(a, t, [&](Index r) {
    const float* __restrict x = a.x.row(r) + block.begin;
    const float* __restrict dy = a.dy.row(r) + block.begin;
    s.count += 1;
#pragma omp simd
    for (Index c = 0; c < block.width; ++c) {
      const float xhat = ((x[c] - mean[c]) - shift[c]) * rstd[c];
      s.dy[c] += static_cast<double>(dy[c]);
      s.dot[c] += static_cast<double>(dy[c]) * static_cast<double>(xhat);
    }
  });
  return s;
}

void gather(Sums& into, const Sums& more, Index width) {
  into.count += more.count;
  for (Index c = 0; c < width; ++c) {
    into.dy[c] += more.dy[c];
    into.dot[c] += more.dot[c];
  }
}

/// How dx follows from dy at one position, with d = x − mean:
///   dx = outer·((dy − own_mean) − d·own_along) + later_mean + d·later_along
/// "own" comes from the set that normalizes the position, "later" from longer prefixes.
struct Slope {
  float outer[kBatchColumns] = {};
  float own_mean[kBatchColumns] = {};
  float own_along[kBatchColumns] = {};
  float later_mean[kBatchColumns] = {};
  float later_along[kBatchColumns] = {};
};

/// `count` is the size of the set, `sums` run over what it normalizes.
void set_own(const BatchNormBackward<float>& a,
             Index t,
             ColumnBlock block,
             const Sums& sums,
             double count,
             Slope& slope) {
  const float* rstd = a.rstd + a.shape.set_of(t) * a.x.cols + block.begin;
  for (Index c = 0; c < block.width; ++c) {
    slope.outer[c] = rstd[c] * (a.gain == nullptr ? 1.0f : a.gain[block.begin + c]);
    if (a.shape.constant || count == 0) continue;
    slope.own_mean[c] = static_cast<float>(sums.dy[c] / count);
    slope.own_along[c] = static_cast<float>(sums.dot[c] / count * static_cast<double>(rstd[c]));
  }
}

void write_dx(const BatchNormBackward<float>& a, Index t, ColumnBlock block, const Slope& slope) {
  const Index width = block.width;
  const Index at = a.shape.set_of(t) * a.x.cols + block.begin;
  const float* __restrict mean = a.mean + at;
  const float* __restrict shift = a.shift + at;
  with_into(a.dx_into, [&](auto add) {
    for_valid(a, t, [&](Index r) {
      const float* __restrict x = a.x.row(r) + block.begin;
      const float* __restrict dy = a.dy.row(r) + block.begin;
      float* __restrict dx = a.dx.row(r) + block.begin;
#pragma omp simd
      for (Index c = 0; c < width; ++c) {
        const float d = (x[c] - mean[c]) - shift[c];
        const float own = slope.outer[c] * ((dy[c] - slope.own_mean[c]) - d * slope.own_along[c]);
        put<decltype(add)::value>(dx[c], own + (slope.later_mean[c] + d * slope.later_along[c]));
      }
    });
    if constexpr (!decltype(add)::value) {
      for_padded(a, t, [&](Index r) { std::fill_n(a.dx.row(r) + block.begin, width, 0.0f); });
    }
  });
}

/// What prefixes longer than t contribute to dx at t: Σ over later sets of their dmean / count and
/// 2·dvar / count, the latter times (x − their mean). Kept relative to the mean of the set at hand
/// and moved along as t falls, so that a large common mean never enters.
struct Later {
  double mean[kBatchColumns] = {};
  double along[kBatchColumns] = {};

  /// Moves the reference from the mean of set t + 1 to the mean of set t.
  void step_to(const BatchNormBackward<float>& a, Index t, ColumnBlock block) {
    const Index at = t * a.x.cols + block.begin;
    const Index next = at + a.x.cols;
    const auto whole = [&](Index c) {
      return static_cast<double>(a.mean[c]) + static_cast<double>(a.shift[c]);
    };
    for (Index c = 0; c < block.width; ++c) mean[c] -= along[c] * (whole(next + c) - whole(at + c));
  }
  /// Adds set t itself, for the positions before it.
  void add(const Slope& slope, Index width) {
    for (Index c = 0; c < width; ++c) {
      const auto outer = static_cast<double>(slope.outer[c]);
      mean[c] -= outer * static_cast<double>(slope.own_mean[c]);
      along[c] -= outer * static_cast<double>(slope.own_along[c]);
    }
  }
};

/// From the last position to the first: every prefix hands its share to all positions before it.
Sums backward_prefix(const BatchNormBackward<float>& a, ColumnBlock block, double valid_rows) {
  Sums total;
  Later later;
  double count = valid_rows;  // in the prefix that ends at t
  for (Index t = a.shape.positions - 1; t >= 0; --t) {
    const Sums here = sums_at(a, t, block);
    gather(total, here, block.width);
    if (!a.dx) continue;
    if (t + 1 < a.shape.positions) later.step_to(a, t, block);
    Slope slope;
    set_own(a, t, block, here, count, slope);
    for (Index c = 0; c < block.width; ++c) {
      slope.later_mean[c] = static_cast<float>(later.mean[c]);
      slope.later_along[c] = static_cast<float>(later.along[c]);
    }
    write_dx(a, t, block, slope);
    later.add(slope, block.width);
    count -= here.count;
  }
  return total;
}

Sums backward_position(const BatchNormBackward<float>& a, ColumnBlock block) {
  Sums total;
  for (Index t = 0; t < a.shape.positions; ++t) {
    const Sums here = sums_at(a, t, block);
    gather(total, here, block.width);
    if (!a.dx) continue;
    Slope slope;
    set_own(a, t, block, here, here.count, slope);
    write_dx(a, t, block, slope);
  }
  return total;
}

Sums backward_all(const BatchNormBackward<float>& a, ColumnBlock block) {
  Sums total;
  for (Index t = 0; t < a.shape.positions; ++t) gather(total, sums_at(a, t, block), block.width);
  if (!a.dx) return total;
  Slope slope;
  set_own(a, 0, block, total, total.count, slope);
  for (Index t = 0; t < a.shape.positions; ++t) write_dx(a, t, block, slope);
  return total;
}

}  // namespace

void run(Cpu, const BatchNormBackward<float>& a) {
  double valid_rows = 0;
  for (Index t = 0; t < a.shape.positions; ++t) for_valid(a, t, [&](Index) { valid_rows += 1; });
  for_each_column_block(a.x.rows, a.x.cols, [&](ColumnBlock block) {
    const Sums total = a.shape.sets == 1 ? backward_all(a, block)
                       : a.shape.statistics == BatchStatistics::prefix
                           ? backward_prefix(a, block, valid_rows)
                           : backward_position(a, block);
    const auto finish = [&](float* out, Into into, const double* sums) {
      if (out == nullptr) return;
      for (Index c = 0; c < block.width; ++c) {
        float& slot = out[block.begin + c];
        const auto sum = static_cast<float>(sums[c]);
        slot = into == Into::add ? slot + sum : sum;
      }
    };
    finish(a.dgain, a.dgain_into, total.dot);
    finish(a.dbias, a.dbias_into, total.dy);
  });
}

}  // namespace norma::kernels
