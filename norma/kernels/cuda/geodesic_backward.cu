#include "norma/kernels/cuda/alpha_sums.cuh"
#include "norma/kernels/cuda/geodesic_path.cuh"

namespace norma::kernels {

namespace {

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
enum Sum { kMDy, kMM, kPaDy, kPaM, kTurnDy, kTurnM, kAA, kDD, kSums };

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
    backward_kernel(GeodesicBackward<T> args, RowWalk walk) {
  using C = Math<T>;
  using Way = Path<kRule, C>;
  constexpr int N = Team::N;
  Team team(walk);
  const SumsOf<double> to[1] = {
      {args.dalpha == nullptr ? nullptr : args.partials, args.h.cols, args.h.cols}};
  ColumnSums<1, Team, C, double> dalpha(team, walk, to);
  walk_rows(team, walk, [&](Index r, Index) {
    const Held<Team, const T> h(team, args.h.row(r));
    const Held<Team, const T> b(team, args.b.row(r));
    const Held<Team, const T> out(team, args.dy.row(r));
    const GeodesicRow stats = args.stats[r];
    const Way path(stats.turn);
    const C inv_h = static_cast<C>(stats.inv_h);
    const C inv_b = static_cast<C>(stats.inv_b);
    const auto reach = [&](int p, int c, C(&a)[N], C(&d)[N], C(&dy)[N], PathPoint<C>(&at)[N]) {
      C alpha[N];
      h.get(p, c, a);
      b.get(p, c, d);
      out.get(p, c, dy);
      read_steps(args.alpha, args.alpha_count, args.alpha_mult, c, alpha);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        a[i] *= inv_h;
        d[i] *= inv_b;
      }
      path.points(alpha, a, d, at);
    };
    C sums[Way::kArc ? kSums : Way::kTurns ? kAA : kTurnDy] = {};
    team.each([&](int p, int c) {
      C a[N];
      C d[N];
      C dy[N];
      PathPoint<C> at[N];
      reach(p, c, a, d, dy, at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C pa = at[i].p * a[i];
        sums[kMDy] += at[i].m * dy[i];
        sums[kMM] += at[i].m * at[i].m;
        sums[kPaDy] += pa * dy[i];
        sums[kPaM] += pa * at[i].m;
        if constexpr (Way::kTurns) {
          sums[kTurnDy] += at[i].by_turn * dy[i];
          sums[kTurnM] += at[i].by_turn * at[i].m;
        }
        if constexpr (Way::kArc) {
          sums[kAA] += a[i] * a[i];
          sums[kDD] += d[i] * d[i];
        }
      }
    });
    team.sum(sums);
    const RowGradient<C> g = row_gradient(path, static_cast<C>(stats.inv_m), sums);
    team.each([&](int p, int c) {
      C a[N];
      C d[N];
      C dy[N];
      PathPoint<C> at[N];
      reach(p, c, a, d, dy, at);
      C slope[N];
      C da[N];
      C dd[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const C gm = g.by_dy * dy[i] - g.by_m * at[i].m;
        slope[i] = gm * at[i].by_alpha;
        da[i] = inv_h * (at[i].p * gm + g.across * d[i] + g.along_a * a[i]);
        dd[i] = inv_b * (at[i].q * gm + g.across * a[i] + g.along_d * d[i]);
      }
      dalpha.add(0, p, c, slope);
      if (args.dh) put_row(args.dh.row(r) + c, da, args.dh_into);
      if (args.db) put_row(args.db.row(r) + c, dd, args.db_into);
    });
  });
  dalpha.finish(team);
}

}  // namespace

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
    with_team<T>(cols, fit, [&]<class Team>(std::type_identity<Team>) {
      const RowWalk walk = row_walk<Team>(rows, 1, cols, sums);
      launch("the gradient of a step on the sphere",
             walk.grid,
             Team::kThreads,
             0,
             backward_kernel<T, rule, Team>,
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
template void run(Cuda, const GeodesicBackward<float>&);
template void run(Cuda, const GeodesicBackward<Bf16>&);

}  // namespace norma::kernels
