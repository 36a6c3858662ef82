// qk_rope of f32, and of bf16 where heads do not lie in packs of 16 bytes.
#include "norma/kernels/cuda/norm_gain.cuh"
#include "norma/kernels/cuda/qk_rope_quick.h"
#include "norma/kernels/cuda/rope_pairs.cuh"
#include "norma/kernels/cuda/row_team.cuh"

namespace norma::kernels {

namespace {

template <bool kHalf, class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    forward_kernel(QkRopeForward<T> a, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  const Index pairs = a.factors.pairs;
  Team team(walk);
  using Heads = HeldPairs<kHalf, Team, const T>;
  const auto load = [&](Index r, Index g) {
    return Heads(team, a.x.row(r) + g * 2 * pairs, pairs);
  };
  walk_ahead(team, walk, load, [&](Index r, Index g, Heads& x) {
    const Index at = g * 2 * pairs;
    const Index angles = factors_of(a.factors, r);
    C sums[1] = {};
    // A rotation keeps lengths, up to the rounding of its factors; f32 counts that as well.
    const bool turned = a.scaling.after_rope &&
                        (std::is_same_v<T, float> || a.factors.layout == RopeLayout::nvidia_defect);
    team.each([&](int p, int c) {
      C v0[N];
      C v1[N];
      x.get(p, c, v0, v1);
      if (turned) Turn<N, C>(a.factors, angles + c)(false, v0, v1);
#pragma unroll
      for (int i = 0; i < N; ++i) sums[0] += v0[i] * v0[i] + v1[i] * v1[i];
    });
    C rstd = 1;
    if (a.scaling.norm != HeadNorm::none) {
      team.sum(sums);
      const C square = sums[0] * static_cast<C>(a.scaling.weight) + static_cast<C>(a.scaling.eps);
      rstd = a.scaling.norm == HeadNorm::l2 && sums[0] == 0 ? C{0} : inverse_root(square);
    }
    if (team.first()) write(a.rstd[r * walk.groups + g], rstd);
    team.each([&](int p, int c) {
      const Turn<N, C> turn(a.factors, angles + c);
      C v0[N];
      C v1[N];
      C s0[N];
      C s1[N];
      x.get(p, c, v0, v1);
      read_factors<kHalf>(a, at, c, s0, s1);
      if (a.scaling.after_rope) turn(false, v0, v1);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v0[i] *= rstd * s0[i];
        v1[i] *= rstd * s1[i];
      }
      if (!a.scaling.after_rope) turn(false, v0, v1);
      put_pairs<kHalf>(a.y.row(r) + at, pairs, c, v0, v1, Into::set);
    });
  });
}

template <bool kHalf, class T, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2) backward_kernel(QkRopeBackward<T> a,
                                                                     RowWalk walk,
                                                                     SumsOf<Wide<T>> firsts,
                                                                     SumsOf<Wide<T>> seconds) {
  using C = Math<T>;
  constexpr int N = Team::N;
  const Index pairs = a.factors.pairs;
  const bool after = a.scaling.after_rope;
  Team team(walk);
  const SumsOf<Wide<T>> to[2] = {firsts, seconds};
  ColumnSums<2, Team, C, Wide<T>> dgain(team, walk, to);
  using Heads = HeldPairs<kHalf, Team, const T>;
  struct Loaded {
    Heads x;
    Heads dy;
  };
  const auto load = [&](Index r, Index g) {
    const Index at = g * 2 * pairs;
    return Loaded{Heads(team, a.x.row(r) + at, pairs), Heads(team, a.dy.row(r) + at, pairs)};
  };
  walk_ahead(team, walk, load, [&](Index r, Index g, Loaded& held) {
    auto& [x, dy] = held;
    const Index at = g * 2 * pairs;
    const Index angles = factors_of(a.factors, r);
    const C rstd = read<C>(a.rstd[r * walk.groups + g]);
    const C mult = static_cast<C>(a.scaling.gain_mult) * rstd;
    C sums[1] = {};
    team.each([&](int p, int c) {
      const Turn<N, C> turn(a.factors, angles + c);
      C v0[N];  // what the norm sees
      C v1[N];
      C g0[N];  // the gradient of v·rstd·factor
      C g1[N];
      C s0[N];
      C s1[N];
      x.get(p, c, v0, v1);
      dy.get(p, c, g0, g1);
      if (after) {
        turn(false, v0, v1);
      } else {
        turn(true, g0, g1);
      }
      read_factors<kHalf>(a, at, c, s0, s1);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v0[i] *= g0[i];
        v1[i] *= g1[i];
        sums[0] += v0[i] * s0[i] + v1[i] * s1[i];
        v0[i] *= mult;
        v1[i] *= mult;
      }
      dgain.add(0, p, c, v0);
      dgain.add(1, p, c, v1);
    });
    if (!a.dx) return;
    C along = 0;
    if (a.scaling.norm != HeadNorm::none) {
      team.sum(sums);
      along = sums[0] * rstd * rstd * static_cast<C>(a.scaling.weight);
    }
    team.each([&](int p, int c) {
      const Turn<N, C> turn(a.factors, angles + c);
      C v0[N];
      C v1[N];
      C g0[N];
      C g1[N];
      C s0[N];
      C s1[N];
      x.get(p, c, v0, v1);
      dy.get(p, c, g0, g1);
      if (after) {
        turn(false, v0, v1);
      } else {
        turn(true, g0, g1);
      }
      read_factors<kHalf>(a, at, c, s0, s1);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v0[i] = rstd * (g0[i] * s0[i] - v0[i] * along);
        v1[i] = rstd * (g1[i] * s1[i] - v1[i] * along);
      }
      if (after) turn(true, v0, v1);
      put_pairs<kHalf>(a.dx.row(r) + at, pairs, c, v0, v1, a.dx_into);
    });
  });
  dgain.finish(team);
}

/// f(std::bool_constant<half>{}, std::type_identity<Team>{}) with a team for the pairs of a head.
template <class T, class F>
void with_pair_team(const RopeFactors<T>& factors, bool fit, F&& f) {
  constexpr int N = 4;  // pairs: their angles, gains and sums fill the registers of a thread
  const Index pairs = factors.pairs;
  const bool packed =
      fit && pairs % N == 0 && row_packs(factors.cosine, N) && row_packs(factors.sine, N);
  const auto with = [&](auto half) {
    if (packed && pairs <= 32 * N) return f(half, std::type_identity<RowTeam<32, 1, N, 256>>{});
    if (pairs <= 64) return f(half, std::type_identity<RowTeam<32, 2, 1>>{});
    return f(half, std::type_identity<RowTeam<256, 0, 1>>{});
  };
  if (factors.layout == RopeLayout::half_split) {
    with(std::true_type{});
  } else {
    with(std::false_type{});
  }
}

}  // namespace

template <class T>
void run(Cuda, const QkRopeForward<T>& a) {
  if (run_quick(a)) return;
  constexpr int N = kPack<T>;
  const Index pairs = a.factors.pairs;
  const bool fit = row_packs(a.x, N) && row_packs(a.y, N) && row_packs(a.gain, N);
  with_pair_team(a.factors, fit, [&]<class Team>(auto half, std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / (2 * pairs), pairs);
    launch("qk_rope", walk.grid, Team::kThreads, 0, forward_kernel<half, T, Team>, a, walk);
  });
}
template void run(Cuda, const QkRopeForward<float>&);
template void run(Cuda, const QkRopeForward<Bf16>&);

template <class T>
void run(Cuda, const QkRopeBackward<T>& a) {
  if (run_quick(a)) return;
  constexpr int N = kPack<T>;
  const Index pairs = a.factors.pairs;
  const Index head = 2 * pairs;
  const bool fit =
      row_packs(a.x, N) && row_packs(a.dy, N) && row_packs(a.dx, N) && row_packs(a.gain, N);
  const GroupSums<Wide<T>> dgain(a.dgain, a.partials, a.x.cols, head, a.scaling.gain_per_column);
  with_pair_team(a.factors, fit, [&]<class Team>(auto half, std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.x.rows, a.x.cols / head, pairs, dgain.over_rows());
    SumsOf<Wide<T>> firsts = dgain.to;
    firsts.step = half ? 1 : 2;
    SumsOf<Wide<T>> seconds = firsts;
    if (a.dgain != nullptr) seconds.data += half ? pairs : 1;
    launch("the gradient of qk_rope",
           walk.grid,
           Team::kThreads,
           0,
           backward_kernel<half, T, Team>,
           a,
           walk,
           firsts,
           seconds);
  });
  dgain.finish(a.x.rows, a.dgain_into);
}
template void run(Cuda, const QkRopeBackward<float>&);
template void run(Cuda, const QkRopeBackward<Bf16>&);

}  // namespace norma::kernels
