// The gradient of a geodesic step: one loop over a row for all sums, one for what it writes. The
// element types are compiled in units of their own.
#pragma once

#include "norma/kernels/cuda/alpha_sums.cuh"
#include "norma/kernels/cuda/geodesic_path.cuh"

namespace norma::kernels {

/// What a row's gradients share: gm = by_dy·dy − by_m·m is that of m,
///   dh = inv_h·(p·gm + across·d + along_a·a),   db = inv_b·(q·gm + across·a + along_d·d).
template <class C>
struct RowGradient {
  C by_dy;
  C by_m;
  C across;
  C along_a;
  C along_d;
};

/// Sums over a row of backward. Everything linear in gm is taken apart into dy and m, so that one
/// loop finds them all.
enum GeodesicSum { kMDy, kMM, kPaDy, kPaM, kTurnDy, kTurnM, kAA, kDD, kSums };

template <GeodesicRule kRule, class C, int K>
__device__ RowGradient<C> row_gradient(const Path<kRule, C>& path, C inv_m, const C (&sums)[K]) {
  RowGradient<C> g{};
  g.by_dy = inv_m;
  g.by_m = sums[kMDy] * inv_m * inv_m * inv_m;  // gm = dy/|m| − m·⟨m, dy⟩/|m|³
  const C a_gm = g.by_dy * sums[kPaDy] - g.by_m * sums[kPaM];  // ⟨a, p·gm⟩
  const C d_gm = g.by_dy * (sums[kMDy] - sums[kPaDy]) - g.by_m * (sums[kMM] - sums[kPaM]);
  C along = 0;
  C dot = path.turn;
  C aa = 0;
  C dd = 0;
  if constexpr (kRule == GeodesicRule::riem) {
    g.across = g.by_dy * sums[kTurnDy] - g.by_m * sums[kTurnM];  // ∂⟨a, d⟩/∂a = d
  }
  if constexpr (kRule == GeodesicRule::slerp) {
    // ∂θ/∂a = −(d − cosθ·a)·2/(sinθ·(|a|² + |d|²))
    const C dturn = g.by_dy * sums[kTurnDy] - g.by_m * sums[kTurnM];
    aa = sums[kAA];
    dd = sums[kDD];
    dot = path.cosine * (aa + dd) / 2;
    if (path.sine > 0 && aa + dd > 0) {
      g.across = -2 * dturn * path.inv_sine / (aa + dd);
      along = -g.across * path.cosine;
    }
  }
  g.along_a = along - (a_gm + g.across * dot + along * aa);
  g.along_d = along - (d_gm + g.across * dot + along * dd);
  return g;
}

template <class T, GeodesicRule kRule, class Team>
__global__ void __launch_bounds__(Team::kThreads, 2)
    geodesic_backward_kernel(GeodesicBackward<T> args, RowWalk walk) {
  using C = Math<T>;
  using Way = Path<kRule, C>;
  constexpr int N = Team::N;
  Team team(walk);
  const SumsOf<double> to[1] = {
      {args.dalpha == nullptr ? nullptr : args.partials, args.h.cols, args.h.cols}};
  ColumnSums<1, Team, C, double> dalpha(team, walk, to);
  walk_batches(team, walk, [&](const RowBatch<1>& rows, Index) {
    const Index r = rows.row(0);
    Held<Team, const T> h(team, args.h.row(r));
    Held<Team, const T> b(team, args.b.row(r));
    Held<Team, const T> out(team, args.dy.row(r));
    const GeodesicRow stats = args.stats[r];
    const Way path(stats.turn);
    const C inv_h = static_cast<C>(stats.inv_h);
    const C inv_b = static_cast<C>(stats.inv_b);
    if (!rows.on[0]) out.clear();  // and nothing is added to dalpha
    const auto load = [&](int p, int c, C(&alpha)[N], C(&a)[N], C(&d)[N], C(&dy)[N]) {
      read_steps(args.alpha, args.alpha_count, args.alpha_mult, c, alpha);
      h.get(p, c, a);
      b.get(p, c, d);
      out.get(p, c, dy);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        a[i] *= inv_h;
        d[i] *= inv_b;
      }
    };
    C sums[Way::kArc ? kSums : Way::kTurns ? kAA : kTurnDy] = {};
    path.with_case([&](auto usual) {
      team.each([&](int p, int c) {
        C alpha[N];
        C a[N];
        C d[N];
        C dy[N];
        load(p, c, alpha, a, d, dy);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const PathPoint<C> at = path.template point<usual>(alpha[i], a[i], d[i]);
          const C pa = at.p * a[i];
          sums[kMDy] += at.m * dy[i];
          sums[kMM] += at.m * at.m;
          sums[kPaDy] += pa * dy[i];
          sums[kPaM] += pa * at.m;
          if constexpr (Way::kTurns) {
            sums[kTurnDy] += at.by_turn * dy[i];
            sums[kTurnM] += at.by_turn * at.m;
          }
          if constexpr (Way::kArc) {
            sums[kAA] += a[i] * a[i];
            sums[kDD] += d[i] * d[i];
          }
        }
      });
    });
    team.sum(sums);
    h.look_again();
    b.look_again();
    out.look_again();
    const RowGradient<C> g = row_gradient(path, static_cast<C>(stats.inv_m), sums);
    path.with_case([&](auto usual) {
      team.each([&](int p, int c) {
        C alpha[N];
        C a[N];
        C d[N];
        C dy[N];
        load(p, c, alpha, a, d, dy);
        C slope[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const PathPoint<C> at = path.template point<usual>(alpha[i], a[i], d[i]);
          const C gm = g.by_dy * dy[i] - g.by_m * at.m;
          const C ga = at.p * gm + g.across * d[i] + g.along_a * a[i];
          const C gd = at.q * gm + g.across * a[i] + g.along_d * d[i];
          slope[i] = gm * at.by_alpha;
          a[i] = inv_h * ga;
          d[i] = inv_b * gd;
        }
        dalpha.add(0, p, c, slope);
        if (!rows.on[0]) return;
        if (args.dh) put_row(args.dh.row(r) + c, a, args.dh_into);
        if (args.db) put_row(args.db.row(r) + c, d, args.db_into);
      });
    });
  });
  dalpha.finish(team);
}

/// with_team with fewer kernels. A path that turns needs so many registers beside the row and the
/// sums of alpha that a thread holds two packs where it could hold four of a chord.
template <class T, bool kTurns, class F>
void with_step_team(Index width, bool fit, F&& f) {
  constexpr int N = kPack<T>;
  constexpr int kMore = kTurns ? 2 : 1;  // threads to a row
  const auto with = [&]<int kSpan, int kPacks, int kN>() {
    f(std::type_identity<RowTeam<kSpan, kPacks, kN>>{});
  };
  const Index packs = width / N;
  if (!fit || width % N != 0 || packs > 1024) {
    if (width <= 64) return with.template operator()<32, 2, 1>();
    if (width <= 2048) return with.template operator()<256, 8, 1>();
    return with.template operator()<256, 0, 1>();
  }
  if constexpr (std::is_same_v<T, float>) {  // the mode for comparisons
    if (packs <= 128) return with.template operator()<32, 4, N>();
  } else {
    if (packs <= 32) return with.template operator()<16, 2, N>();
    if (packs <= 64) return with.template operator()<32, 2, N>();
    if (packs <= 96) return with.template operator()<32, 3, N>();
    if (packs <= 128) return with.template operator()<32 * kMore, 4 / kMore, N>();
    if (packs <= 256) return with.template operator()<64 * kMore, 4 / kMore, N>();
    if (packs <= 512) return with.template operator()<128 * kMore, 4 / kMore, N>();
  }
  return with.template operator()<256, 4, N>();
}

template <class T>
void run(Cuda, const GeodesicBackward<T>& args) {
  constexpr int N = kPack<T>;
  const Index rows = args.h.rows;
  const Index cols = args.h.cols;
  const bool fit = row_packs(args.h, N) && row_packs(args.b, N) && row_packs(args.dy, N) &&
                   row_packs(args.dh, N) && row_packs(args.db, N) &&
                   (args.alpha_count == 1 || row_packs(args.alpha, N));
  const OverRows sums = args.dalpha == nullptr ? OverRows::none : OverRows::per_column;
  with_rule(args.rule, [&](auto rule) {
    with_step_team<T, rule != GeodesicRule::lerp>(
        cols, fit, [&]<class Team>(std::type_identity<Team>) {
          const RowWalk walk = row_walk<Team>(rows, 1, cols, sums);
          launch("the gradient of a step on the sphere",
                 walk.grid,
                 Team::kThreads,
                 0,
                 geodesic_backward_kernel<T, rule, Team>,
                 args,
                 walk);
        });
  });
  if (args.dalpha == nullptr) return;
  finish_alpha(args.partials,
               gpu_chunks(rows).count,
               cols,
               args.alpha,
               args.alpha_count,
               args.alpha_mult,
               args.dalpha,
               args.dalpha_into);
}

}  // namespace norma::kernels
