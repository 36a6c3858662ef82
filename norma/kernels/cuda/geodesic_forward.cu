#include "norma/kernels/cuda/geodesic_path.cuh"

namespace norma::kernels {

namespace {

/// |cosθ| beyond which θ is not taken from the dot product: in float it is good to 1e-6 up to here.
constexpr double kSteep = 0.9;

template <class T, GeodesicRule kRule, class Team>
__global__ void __launch_bounds__(Team::kThreads, kRowBlocks<T, Team, 768>)
    forward_kernel(GeodesicForward<T> args, RowWalk walk) {
  using C = Math<T>;
  constexpr int N = Team::N;
  Team team(walk);
  walk_batches(team, walk, [&](const RowBatch<1>& rows, Index) {
    const Index r = rows.row(0);
    Held<Team, const T> h(team, args.h.row(r));
    Held<Team, const T> b(team, args.b.row(r));
    constexpr bool kDot = kRule != GeodesicRule::lerp;
    C squares[kDot ? 3 : 2] = {};  // of h, of b, and h·b
    team.each([&](int p, int c) {
      C x[N];
      C y[N];
      h.get(p, c, x);
      b.get(p, c, y);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        squares[0] += x[i] * x[i];
        squares[1] += y[i] * y[i];
        if constexpr (kDot) squares[2] += x[i] * y[i];
      }
    });
    team.sum(squares);
    h.look_again();
    b.look_again();
    GeodesicRow stats;
    stats.inv_h = inverse_norm(squares[0], args.eps);
    stats.inv_b = inverse_norm(squares[1], args.eps);
    const auto inv_h = static_cast<C>(stats.inv_h);
    const auto inv_b = static_cast<C>(stats.inv_b);
    if constexpr (kDot) {
      stats.turn = static_cast<double>(squares[2]) * stats.inv_h * stats.inv_b;
    }
    if constexpr (kRule == GeodesicRule::slerp) {
      stats.aa = squares[0] * stats.inv_h * stats.inv_h;
      stats.dd = squares[1] * stats.inv_b * stats.inv_b;
      const double dot = stats.turn;
      const double both = stats.aa + stats.dd;
      stats.turn = angle_of(static_cast<C>(both - 2 * dot), static_cast<C>(both + 2 * dot));
      // Near 0 and π one of the two is a difference of near equals, so it is summed. Teams share
      // warps, and whole warps meet in sums.
      const bool summed = 2 * fabs(dot) > kSteep * both;
      if (__any_sync(0xFFFFFFFFU, summed)) {
        C between[2] = {};  // |a − d|² and |a + d|²
        team.each([&](int p, int c) {
          C a[N];
          C d[N];
          h.get(p, c, a);
          b.get(p, c, d);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            a[i] *= inv_h;
            d[i] *= inv_b;
            between[0] += (a[i] - d[i]) * (a[i] - d[i]);
            between[1] += (a[i] + d[i]) * (a[i] + d[i]);
          }
        });
        team.sum(between);
        if (summed) stats.turn = angle_of(between[0], between[1]);
      }
      h.look_again();
      b.look_again();
    }
    const Path<kRule, C> path(stats.turn);
    const C inv_b_stretch = inv_b * path.stretch;
    // m, and again m where a row is not held.
    const auto each_m = [&](auto&& f) {
      path.with_case([&](auto usual) {
        team.each([&](int p, int c) {
          C alpha[N];
          C m[N];
          C z[N];
          h.get(p, c, m);
          b.get(p, c, z);
          read_steps(args.alpha, args.alpha_count, args.alpha_mult, c, alpha);
#pragma unroll
          for (int i = 0; i < N; ++i) {
            const C a = m[i] * inv_h;
            z[i] = path.other_direction(a, z[i], inv_b_stretch);
            m[i] = path.template point<usual>(alpha[i], a, z[i]).m;
          }
          f(p, c, m);
        });
      });
    };
    C held[Team::kPacks > 0 ? Team::kPacks : 1][N];
    C square[1] = {};
    each_m([&](int p, int, const C(&m)[N]) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        held[p][i] = m[i];
        square[0] += m[i] * m[i];
      }
    });
    team.sum(square);
    stats.inv_m = inverse_norm(square[0], args.eps);
    if (rows.on[0] && team.first()) args.stats[r] = stats;
    const auto finish = [&](int, int c, const C(&m)[N]) {
      C y[N];
#pragma unroll
      for (int i = 0; i < N; ++i) y[i] = m[i] * static_cast<C>(stats.inv_m);
      if (rows.on[0]) put_row(args.y.row(r) + c, y, Into::set);
    };
    if constexpr (Team::kPacks > 0) {
      team.each([&](int p, int c) { finish(p, c, held[p]); });
    } else {
      each_m(finish);
    }
  });
}

}  // namespace

template <class T>
void run(Cuda, const GeodesicForward<T>& args) {
  constexpr int N = kPack<T>;
  const bool fit = row_packs(args.h, N) && row_packs(args.b, N) && row_packs(args.y, N) &&
                   (args.alpha_count == 1 || row_packs(args.alpha, N));
  with_rule(args.rule, [&](auto rule) {
    with_team<T>(args.h.cols, fit, [&]<class Team>(std::type_identity<Team>) {
      const RowWalk walk = row_walk<Team>(args.h.rows, 1, args.h.cols);
      launch("a step on the sphere",
             walk.grid,
             Team::kThreads,
             0,
             forward_kernel<T, rule, Team>,
             args,
             walk);
    });
  });
}
template void run(Cuda, const GeodesicForward<float>&);
template void run(Cuda, const GeodesicForward<Bf16>&);

}  // namespace norma::kernels
