// The gradient of a geodesic step: one loop over a row for all sums, one for what it writes. The
// element types are compiled in units of their own.
#pragma once

#include "norma/kernels/cuda/alpha_sums.cuh"
#include "norma/kernels/cuda/geodesic_path.cuh"

namespace norma::kernels {

/// What a row's gradients share: gm = by_dy·dy − by_m·m is that of m,
///   dh = inv_h·(p·gm + h_on_a·a + h_on_z·z),   db = inv_b·(q·gm + b_on_a·a + b_on_z·z).
template <class C>
struct RowGradient {
  C by_dy;
  C by_m;
  C h_on_a;
  C h_on_z;
  C b_on_a;
  C b_on_z;
};

/// sums: of dy and of m, each times m and its parts. Everything linear in gm is taken apart into
/// the two, so that one loop finds them all.
template <GeodesicRule kRule, class C, int K>
__device__ RowGradient<C> row_gradient(const Path<kRule, C>& path,
                                       const GeodesicRow& stats,
                                       const C (&sums)[2][K]) {
  const C inv_m = static_cast<C>(stats.inv_m);
  C aa = 0;  // only an angle depends on how long a and d are
  C dd = 0;
  if constexpr (kRule == GeodesicRule::slerp) {
    aa = static_cast<C>(stats.aa);
    dd = static_cast<C>(stats.dd);
  }
  RowGradient<C> g{};
  g.by_dy = inv_m;
  // gm = dy/|m| − m·⟨m, dy⟩/|m|³
  g.by_m = sums[0][0] * inv_m * inv_m * inv_m;
  C of_gm[K];
#pragma unroll
  for (int k = 0; k < K; ++k) of_gm[k] = g.by_dy * sums[0][k] - g.by_m * sums[1][k];
  C a_gm;  // ⟨a, p·gm⟩
  C d_gm;  // ⟨d, q·gm⟩
  C dturn;
  path.whole(of_gm, a_gm, d_gm, dturn);
  if (path.framed) {
    // ∂θ/∂a = −(d − cosθ·a)·2/(sinθ·(|a|² + |d|²)), and d − cosθ·a is sinθ·e; the same for d with
    // a − cosθ·d = sinθ·(sinθ·a − cosθ·e). lean is what ⟨a, e⟩ takes part in, 0 but for eps.
    const C by_theta = -2 * dturn / (aa + dd);
    const C lean = path.tilt * by_theta * (aa - dd) / 2;
    g.h_on_a = lean - a_gm;
    g.h_on_z = by_theta;
    g.b_on_a = path.sine * by_theta - path.cosine * (lean + d_gm);
    g.b_on_z = -path.cosine * by_theta - path.sine * (lean + d_gm);
    return g;
  }
  C across = 0;
  C along = 0;
  C dot = path.turn;
  if constexpr (kRule == GeodesicRule::riem) across = dturn;  // ∂⟨a, d⟩/∂a = d
  if constexpr (kRule == GeodesicRule::slerp) {
    dot = path.cosine * (aa + dd) / 2;
    if (path.sine > 0 && aa + dd > 0) {
      across = -2 * dturn * path.inv_sine / (aa + dd);
      along = -across * path.cosine;
    }
  }
  g.h_on_a = along - (a_gm + across * dot + along * aa);
  g.h_on_z = across;
  g.b_on_a = across;
  g.b_on_z = along - (d_gm + across * dot + along * dd);
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
    const C inv_b_stretch = inv_b * path.stretch;
    if (!rows.on[0]) out.clear();  // and nothing is added to dalpha
    const auto load = [&](int p, int c, C(&alpha)[N], C(&a)[N], C(&z)[N], C(&dy)[N]) {
      read_steps(args.alpha, args.alpha_count, args.alpha_mult, c, alpha);
      h.get(p, c, a);
      b.get(p, c, z);
      out.get(p, c, dy);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        a[i] *= inv_h;
        z[i] = path.other_direction(a[i], z[i], inv_b_stretch);
      }
    };
    C sums[2][Way::kSums] = {};
    path.with_case([&](auto usual) {
      team.each([&](int p, int c) {
        C alpha[N];
        C a[N];
        C z[N];
        C dy[N];
        load(p, c, alpha, a, z, dy);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const PathPoint<C> at = path.template point<usual>(alpha[i], a[i], z[i]);
          sums[0][0] += at.m * dy[i];
          sums[1][0] += at.m * at.m;
#pragma unroll
          for (int k = 1; k < Way::kSums; ++k) {
            sums[0][k] += at.parts[k - 1] * dy[i];
            sums[1][k] += at.parts[k - 1] * at.m;
          }
        }
      });
    });
    team.sum(sums);
    h.look_again();
    b.look_again();
    out.look_again();
    const RowGradient<C> g = row_gradient(path, stats, sums);
    path.with_case([&](auto usual) {
      team.each([&](int p, int c) {
        C alpha[N];
        C a[N];
        C z[N];
        C dy[N];
        load(p, c, alpha, a, z, dy);
        C slope[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const PathPoint<C> at = path.template point<usual>(alpha[i], a[i], z[i]);
          const C gm = g.by_dy * dy[i] - g.by_m * at.m;
          const C ga = at.p * gm + g.h_on_a * a[i] + g.h_on_z * z[i];
          const C gd = at.q * gm + g.b_on_a * a[i] + g.b_on_z * z[i];
          slope[i] = gm * at.by_alpha;
          a[i] = inv_h * ga;
          z[i] = inv_b * gd;
        }
        dalpha.add_products(0, p, c, slope, path.pace);
        if (!rows.on[0]) return;
        if (args.dh) put_row(args.dh.row(r) + c, a, args.dh_into);
        if (args.db) put_row(args.db.row(r) + c, z, args.db_into);
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
