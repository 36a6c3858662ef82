// qk_rope of bf16. A thread has eight pairs of one head, as two packs of 16 bytes, for a few rows
// at the same position in different sequences: it reads angles once for all of them, has all their
// packs on the way before it uses one, and keeps its factors while it walks on.
#include <algorithm>

#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/qk_rope_quick.h"
#include "norma/kernels/cuda/rope_pairs.cuh"
#include "norma/kernels/cuda/row_team.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
constexpr int kThreads = 256;
// Rows of a thread at once. Of more rows more bytes would be on their way, but of fewer threads.
constexpr int kForwardRows = 2;
constexpr int kBackwardRows = 2;
constexpr int kForwardBlocks = 3;  // to a multiprocessor
constexpr int kBackwardBlocks = 2;

template <int kSpan>
using Team = RowTeam<kSpan, 1, N, kThreads>;

/// Rows in sets of at most kRows at the same position; a team walks over sets as over rows.
struct RowSets {
  Index rows;
  Index steps;     // between the rows of a set
  unsigned parts;  // sets at a position

  RowSets(Index rows_, Index steps_, int size)
      : rows(rows_),
        steps(steps_),
        parts(static_cast<unsigned>(((rows_ + steps_ - 1) / steps_ + size - 1) / size)) {}

  Index count() const { return std::min(rows, steps) * static_cast<Index>(parts); }

  struct Set {
    Index position;
    Index first;  // row
  };
  __device__ Set set(Index index, int size) const {
    const auto i = static_cast<unsigned>(index);
    const Index position = i / parts;
    return {position, position + static_cast<Index>(i % parts) * size * steps};
  }
};

/// Eight pairs as they are stored.
template <bool kHalf>
struct HeldEight {
  Neighbours<Bf16, N> low;
  Neighbours<Bf16, N> high;

  __device__ void load(const Bf16* head, const PairPlaces<kHalf>& places, int c) {
    low.load(head + places.low(c));
    high.load(head + places.template high<N>(c));
  }
  __device__ void get(float (&first)[N], float (&second)[N]) const {
    float a[N];
    float b[N];
    low.get(a);
    high.get(b);
    PairPlaces<kHalf>::part(a, b, first, second);
  }
};

/// kAfter: the norm comes after the rotation. Rotations keep lengths, up to the rounding of their
/// factors, so only gains see a difference.
template <bool kHalf, int kSpan, bool kAfter, int K>
__global__ void __launch_bounds__(kThreads, kForwardBlocks)
    forward_kernel(QkRopeForward<Bf16> a, RowSets sets, RowWalk walk) {
  const Index pairs = a.factors.pairs;
  const PairPlaces<kHalf> places{pairs};
  Team<kSpan> team(walk);
  // Lanes beyond the head take part in its sums with nothing.
  const int c = team.lane * N < pairs ? team.lane * N : 0;
  const bool there = team.lane * N < pairs;
  Index factors_at = -1;
  float s0[N];
  float s1[N];
  walk_rows(team, walk, [&](Index index, Index g) {
    const auto [position, first] = sets.set(index, K);
    const Index at = g * 2 * pairs;
    HeldEight<kHalf> x[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Index r = first + k * sets.steps;
      x[k].load(a.x.row(r < sets.rows ? r : position) + at, places, c);
    }
    const Turn<N, float> turn(a.factors, (a.factors.offset + position) * pairs + c);
    if (at != factors_at) read_factors<kHalf>(a, at, c, s0, s1);
    factors_at = at;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Index r = first + k * sets.steps;
      float v0[N];
      float v1[N];
      x[k].get(v0, v1);
      float sums[1] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) sums[0] += v0[i] * v0[i] + v1[i] * v1[i];
      if (!there) sums[0] = 0;
      float rstd = 1;
      if (a.scaling.norm != HeadNorm::none) {
        team.sum(sums);
        const float square =
            sums[0] * static_cast<float>(a.scaling.weight) + static_cast<float>(a.scaling.eps);
        rstd = a.scaling.norm == HeadNorm::l2 && sums[0] == 0 ? 0.0F : inverse_root(square);
      }
      if constexpr (kAfter) turn.rotate(false, v0, v1);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v0[i] *= rstd * s0[i];
        v1[i] *= rstd * s1[i];
      }
      if constexpr (!kAfter) turn.rotate(false, v0, v1);
      if (!team.on || !there || r >= sets.rows) continue;
      if (team.lane == 0) a.rstd[r * walk.groups + g] = rstd;
      put_pairs<kHalf>(a.y.row(r) + at, pairs, c, v0, v1, Into::set);
    }
  });
}

template <bool kHalf, int kSpan>
__global__ void __launch_bounds__(kThreads, kBackwardBlocks)
    backward_kernel(QkRopeBackward<Bf16> a,
                    RowSets sets,
                    RowWalk walk,
                    SumsOf<float> firsts,
                    SumsOf<float> seconds) {
  constexpr int K = kBackwardRows;
  const Index pairs = a.factors.pairs;
  const PairPlaces<kHalf> places{pairs};
  Team<kSpan> team(walk);
  const SumsOf<float> to[2] = {firsts, seconds};
  ColumnSums<2, Team<kSpan>, float, float> dgain(team, walk, to);
  const int c = team.lane * N < pairs ? team.lane * N : 0;
  const bool there = team.lane * N < pairs;
  const bool after = a.scaling.after_rope;
  const auto mult = static_cast<float>(a.scaling.gain_mult);
  const float weight =
      a.scaling.norm == HeadNorm::none ? 0.0F : static_cast<float>(a.scaling.weight);
  Index factors_at = -1;
  float s0[N];
  float s1[N];
  walk_rows(team, walk, [&](Index index, Index g) {
    const auto [position, first] = sets.set(index, K);
    const Index at = g * 2 * pairs;
    HeldEight<kHalf> x[K];
    HeldEight<kHalf> dy[K];
    float rstds[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Index r = first + k * sets.steps < sets.rows ? first + k * sets.steps : position;
      x[k].load(a.x.row(r) + at, places, c);
      dy[k].load(a.dy.row(r) + at, places, c);
      rstds[k] = a.rstd[r * walk.groups + g];
    }
    const Turn<N, float> turn(a.factors, (a.factors.offset + position) * pairs + c);
    if (at != factors_at) read_factors<kHalf>(a, at, c, s0, s1);
    factors_at = at;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const Index r = first + k * sets.steps;
      const bool on = team.on && there && r < sets.rows;
      float v0[N];  // what the norm sees
      float v1[N];
      float g0[N];  // the gradient of v·rstd·factor
      float g1[N];
      x[k].get(v0, v1);
      dy[k].get(g0, g1);
      if (after) {
        turn.rotate(false, v0, v1);
      } else {
        turn.rotate(true, g0, g1);
      }
      const float rstd = rstds[k];
      float sums[1] = {};
      if (on) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float p0 = v0[i] * g0[i];
          const float p1 = v1[i] * g1[i];
          sums[0] += p0 * s0[i] + p1 * s1[i];
          dgain.at[0][0][i] += p0 * (mult * rstd);
          dgain.at[1][0][i] += p1 * (mult * rstd);
        }
      }
      if (!a.dx) continue;
      team.sum(sums);
      if (!on) continue;
      const float along = sums[0] * rstd * rstd * weight;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v0[i] = rstd * (g0[i] * s0[i] - v0[i] * along);
        v1[i] = rstd * (g1[i] * s1[i] - v1[i] * along);
      }
      if (after) turn.rotate(true, v0, v1);
      put_pairs<kHalf>(a.dx.row(r) + at, pairs, c, v0, v1, a.dx_into);
    }
  });
  dgain.finish(team);
}

/// f(std::bool_constant<half>{}, std::integral_constant<int, span>{}) with the threads of a head.
template <class F>
void with_span(const RopeFactors<Bf16>& factors, F&& f) {
  const auto with = [&](auto half) {
    if (factors.pairs <= 4 * N) return f(half, std::integral_constant<int, 4>{});
    if (factors.pairs <= 8 * N) return f(half, std::integral_constant<int, 8>{});
    return f(half, std::integral_constant<int, 16>{});
  };
  if (factors.layout == RopeLayout::half_split) {
    with(std::true_type{});
  } else {
    with(std::false_type{});
  }
}
/// The defective table, a control, is no rotation.
template <class A>
bool fits(const A& a) {
  const RopeFactors<Bf16>& f = a.factors;
  return f.layout != RopeLayout::nvidia_defect && f.pairs % N == 0 && f.pairs <= 16 * N &&
         a.x.rows > 0 && a.x.rows < (Index{1} << 31) && row_packs(a.x, N) && row_packs(a.gain, N) &&
         row_packs(f.cosine, N) && row_packs(f.sine, N);
}

}  // namespace

bool run_quick(const QkRopeForward<Bf16>& a) {
  if (!fits(a) || !row_packs(a.y, N)) return false;
  const Index pairs = a.factors.pairs;
  const Index sequences = a.x.rows / a.factors.steps;
  const auto start = [&](auto half, auto span, auto after, auto at_once) {
    const RowSets sets(a.x.rows, a.factors.steps, at_once);
    const RowWalk walk = row_walk<Team<span>>(sets.count(), a.x.cols / (2 * pairs), pairs);
    launch("qk_rope",
           walk.grid,
           kThreads,
           0,
           forward_kernel<half, span, after, at_once>,
           a,
           sets,
           walk);
  };
  with_span(a.factors, [&](auto half, auto span) {
    const auto with_rows = [&](auto after) {
      if (sequences >= kForwardRows) {
        start(half, span, after, std::integral_constant<int, kForwardRows>{});
      } else {
        start(half, span, after, std::integral_constant<int, 1>{});
      }
    };
    if (a.scaling.after_rope) {
      with_rows(std::true_type{});
    } else {
      with_rows(std::false_type{});
    }
  });
  return true;
}

bool run_quick(const QkRopeBackward<Bf16>& a) {
  if (!fits(a) || !row_packs(a.dy, N) || !row_packs(a.dx, N)) return false;
  const Index pairs = a.factors.pairs;
  const Index head = 2 * pairs;
  const RowSets sets(a.x.rows, a.factors.steps, kBackwardRows);
  const GroupSums<float> dgain(a.dgain, a.partials, a.x.cols, head, a.scaling.gain_per_column);
  with_span(a.factors, [&](auto half, auto span) {
    RowWalk walk = row_walk<Team<span>>(sets.count(), a.x.cols / head, pairs, dgain.over_rows());
    if (a.dgain != nullptr) {  // there is room for one partial sum per chunk of rows
      const Index most = gpu_chunks(a.x.rows).count;
      walk.chunk_rows = (sets.count() + most - 1) / most;
      walk.grid.x = static_cast<unsigned>((sets.count() + walk.chunk_rows - 1) / walk.chunk_rows);
    }
    SumsOf<float> firsts = dgain.to;
    firsts.step = half ? 1 : 2;
    SumsOf<float> seconds = firsts;
    if (a.dgain != nullptr) seconds.data += half ? pairs : 1;
    launch("the gradient of qk_rope",
           walk.grid,
           kThreads,
           0,
           backward_kernel<half, span>,
           a,
           sets,
           walk,
           firsts,
           seconds);
    if (a.dgain != nullptr) {
      finish_columns(dgain.to.data, walk.grid.x, dgain.length, a.dgain, a.dgain_into);
    }
  });
  return true;
}

}  // namespace norma::kernels
