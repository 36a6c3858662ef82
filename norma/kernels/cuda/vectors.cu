#include <algorithm>

#include "norma/kernels/cuda/keep.cuh"
#include "norma/kernels/cuda/vector_groups.cuh"
#include "norma/kernels/vectors.h"

namespace norma::kernels {

namespace {

constexpr int kThreads = 256;
using KeepTogether = Together<KeepVectors<float>>;

__global__ void keep_rows_kernel(KeepVectors<float> a, VectorLayout layout) {
  const RowGroup row(layout);
  const float factor =
      keeping_factor(row.sum([&](Index i) { return a.w[i] * a.w[i]; }), keeps_short(a.keep));
  row.each([&](Index i) {
    const float w = a.w[i] * factor;
    a.w[i] = w;
    if (a.copy != nullptr) write(a.copy[i], w);
  });
}

__global__ void column_squares_kernel(KeepVectors<float> a, Index chunk_rows) {
  float* const partials[1] = {a.partials};
  walk_columns<1, 1, double>(
      a.rows, a.cols, chunk_rows, partials, [&](Index r, Index c, double(&sums)[1][1]) {
        const double w = a.w[r * a.cols + c];
        sums[0][0] += w * w;
      });
}

/// The first row of the partials becomes the factors; a thread reads a column before it writes.
__global__ void column_factors_kernel(const __grid_constant__ KeepTogether all, Index chunks) {
  const KeepVectors<float> a = all.each[blockIdx.z];
  const Index c = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= a.cols) return;
  double squares = 0;
  for (Index chunk = 0; chunk < chunks; ++chunk) squares += a.partials[chunk * a.cols + c];
  a.partials[c] = keeping_factor(squares, keeps_short(a.keep));
}

template <int N>
__global__ void scale_columns_kernel(const __grid_constant__ KeepTogether all) {
  const KeepVectors<float> a = all.each[blockIdx.z];
  const Index c = (static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (c >= a.cols) return;
  float factors[N];
  read_pack(a.partials + c, factors);
  for (Index r = blockIdx.y; r < a.rows; r += gridDim.y) {
    const Index i = r * a.cols + c;
    float w[N];
    read_pack(a.w + i, w);
#pragma unroll
    for (int k = 0; k < N; ++k) w[k] *= factors[k];
    write_pack(a.w + i, w);
    if (a.copy != nullptr) write_pack(a.copy + i, w);
  }
}

template <class Group>
__global__ void tangent_kernel(TangentProject<float> a) {
  const Group group(a.layout);
  const double squares = group.sum([&](Index i) { return a.w[i] * a.w[i]; });
  const double dot = group.sum([&](Index i) { return a.w[i] * a.g[i]; });
  const float along = squares == 0 ? 0.0f : static_cast<float>(dot / squares);
  group.each([&](Index i) { a.g[i] -= along * a.w[i]; });
}

template <class Group>
__global__ void cap_kernel(AngularCap<float> a) {
  const Group group(a.layout);
  const float* old = a.before;
  float* w = a.w;
  const double dot = group.sum([&](Index i) { return old[i] * w[i]; });
  const double squares = group.sum([&](Index i) { return w[i] * w[i]; });
  const auto along = static_cast<float>(dot);
  const double tangent = sqrt(group.sum([&](Index i) {
    const float t = w[i] - along * old[i];
    return t * t;
  }));
  float keep_new = keeping_factor(squares, false);
  float keep_old = 0;
  if (atan2(tangent, dot) > a.cap) {
    // cos(cap)·old + sin(cap)·(w − along·old)/|t|
    keep_new = static_cast<float>(sin(a.cap) / tangent);
    keep_old = static_cast<float>(cos(a.cap) - sin(a.cap) / tangent * dot);
  }
  group.each([&](Index i) { w[i] = keep_new * w[i] + keep_old * old[i]; });
  // A capped vector is a difference of two long ones where the cap is small: make it unit again.
  const float unit = keeping_factor(group.sum([&](Index i) { return w[i] * w[i]; }), false);
  group.each([&](Index i) {
    w[i] *= unit;
    if (a.copy != nullptr) write(a.copy[i], w[i]);
  });
}

template <class Group>
__global__ void normalize_direction_kernel(NormalizeDirection<float> a) {
  const Group group(a.layout);
  // Read before the barriers of the sum, written after them.
  const double before = group.exists() ? a.nu[group.vector()] : 0;
  const double squares = group.sum([&](Index i) { return a.o[i] * a.o[i]; });
  const auto nu = static_cast<float>(a.beta2 * before + (1 - a.beta2) * squares /
                                                            static_cast<double>(a.layout.length()));
  if (group.leads()) a.nu[group.vector()] = nu;
  const float factor = 1.0f / sqrtf(nu < 1e-10f ? 1e-10f : nu);
  group.each([&](Index i) { a.o[i] *= factor; });
}

template <class Group>
__global__ void adaptive_clip_kernel(AdaptiveClip<float> a) {
  const Group group(a.layout);
  const double weight = sqrt(group.sum([&](Index i) { return a.w[i] * a.w[i]; }));
  const double length = sqrt(group.sum([&](Index i) { return a.g[i] * a.g[i]; }));
  const double bound = a.clip * (weight < 1e-3 ? 1e-3 : weight);
  const bool clips = length > bound;
  if (group.leads()) a.clipped[group.vector()] = clips ? 1.0f : 0.0f;
  if (!clips) return;
  const auto factor = static_cast<float>(bound / length);
  group.each([&](Index i) { a.g[i] *= factor; });
}

__device__ inline double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

template <class Group>
__global__ void angles_kernel(VectorAngles<float> a) {
  const Group group(a.layout);
  const double from = sqrt(group.sum([&](Index i) { return square(a.before[i]); }));
  const double to = sqrt(group.sum([&](Index i) { return square(a.after[i]); }));
  const bool turns = from != 0 && to != 0;
  const double apart = sqrt(group.sum([&](Index i) {
    const double difference =
        turns ? static_cast<double>(a.before[i]) / from - static_cast<double>(a.after[i]) / to : 0;
    return difference * difference;
  }));
  if (group.leads()) a.angles[group.vector()] = 2 * asin(apart / 2 > 1 ? 1.0 : apart / 2);
}

/// Numbers of at least 0 are ordered as their bits are, and NaN stands above them all.
template <class Group>
__global__ void unit_error_kernel(UnitError<float> a) {
  const Group group(a.layout);
  const double error = fabs(sqrt(group.sum([&](Index i) { return square(a.w[i]); })) - 1);
  if (group.leads()) {
    atomicMax(reinterpret_cast<unsigned long long*>(a.worst),
              static_cast<unsigned long long>(__double_as_longlong(error)));
  }
}

}  // namespace

void scale_columns(Cuda, const KeepTogether& all) {
  constexpr int kWidth = kPack<float>;
  const Index rows = all.each[0].rows;
  const Index cols = all.each[0].cols;
  const auto count = static_cast<unsigned>(all.count);
  launch("the lengths of columns",
         dim3(device::blocks_for(cols, 128), 1, count),
         128,
         0,
         column_factors_kernel,
         all,
         RowChunks(rows).count);
  const bool wide = std::all_of(all.each, all.each + all.count, [&](const KeepVectors<float>& a) {
    return packs(a.w, cols, kWidth) && packs(a.partials, cols, kWidth) &&
           packs(a.copy, cols, kWidth);
  });
  // A block reads its factors once for all its rows; a lone matrix needs its blocks to fill the
  // card.
  const int rows_of_a_block = all.count == 1 ? 1 : 8;
  with_pack<float>(wide, [&](auto n) {
    const dim3 grid(device::blocks_for(cols / n, kThreads),
                    device::blocks_for(rows, rows_of_a_block, 1024),
                    count);
    launch("scaling columns", grid, kThreads, 0, scale_columns_kernel<n>, all);
  });
}

template <class T>
void run(Cuda, const KeepVectors<T>& a) {
  if (keeps_rows(a.keep)) {
    const VectorLayout layout{a.rows, a.cols, false};
    launch(
        "keeping rows", RowGroup::grid(layout), RowGroup::block(), 0, keep_rows_kernel, a, layout);
  } else if (keeps_columns(a.keep)) {
    const RowChunks chunks(a.rows);
    launch("squares of columns",
           column_grid(a.cols, 1, chunks),
           column_block(),
           0,
           column_squares_kernel,
           a,
           chunks.size);
    scale_columns(Cuda{}, KeepTogether{.each = {a}, .count = 1});
  }
}
template void run(Cuda, const KeepVectors<float>&);

#define NORMA_VECTORS(Args, kernel, what)                                       \
  template <class T>                                                            \
  void run(Cuda, const Args<T>& a) {                                            \
    with_group(a.layout, [&](auto kind) {                                       \
      using Group = typename decltype(kind)::Type;                              \
      launch(what, Group::grid(a.layout), Group::block(), 0, kernel<Group>, a); \
    });                                                                         \
  }                                                                             \
  template void run(Cuda, const Args<float>&)
NORMA_VECTORS(TangentProject, tangent_kernel, "the tangent part of a gradient");
NORMA_VECTORS(AngularCap, cap_kernel, "the cap of an angle");
NORMA_VECTORS(NormalizeDirection, normalize_direction_kernel, "normalizing a direction");
NORMA_VECTORS(AdaptiveClip, adaptive_clip_kernel, "adaptive clipping");
NORMA_VECTORS(VectorAngles, angles_kernel, "measuring angles");
#undef NORMA_VECTORS

template <class T>
void run(Cuda, const UnitError<T>& a) {
  device::check(cudaMemsetAsync(a.worst, 0, sizeof *a.worst, device::stream()), "clearing memory");
  with_group(a.layout, [&](auto kind) {
    using Group = typename decltype(kind)::Type;
    launch(
        "measuring lengths", Group::grid(a.layout), Group::block(), 0, unit_error_kernel<Group>, a);
  });
}
template void run(Cuda, const UnitError<float>&);

}  // namespace norma::kernels
