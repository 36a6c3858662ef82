// A thread has one pack of each row that its team takes. Instructions, not bytes, are what such a
// kernel runs out of: gains stay in registers with the sums of their columns, a row's numbers are
// unpacked once, and rows come through shared memory while those before them are worked on.
#include "norma/kernels/cuda/copy_later.cuh"
#include "norma/kernels/cuda/norm_centre.cuh"
#include "norma/kernels/cuda/row_norm_gradient.h"
#include "norma/kernels/cuda/row_team.cuh"

namespace norma::kernels {

namespace {

constexpr int N = kPack<Bf16>;
using Eight = Neighbours<Bf16, N>;

/// Rows of a thread that are on their way. It alone reads what it sent for, so that nobody waits
/// for anybody.
template <int kThreads, int kTensors>
struct Incoming {
  static constexpr int kStages = 2;
  static constexpr int kBytes = kStages * kTensors * kThreads * static_cast<int>(sizeof(uint4));

  __device__ static uint4* place(int stage, int tensor) {
    auto* const packs = reinterpret_cast<uint4*>(block_memory());
    return packs + (stage * kTensors + tensor) * kThreads + threadIdx.x;
  }
  __device__ static void send_for(int stage, int tensor, const Bf16* from) {
    copy_later(place(stage, tensor), from);
  }
  __device__ static Eight get(int stage, int tensor) { return {*place(stage, tensor)}; }
};

/// Row r; numbers of 32 bits are multiplied by one instruction.
template <class T>
__device__ inline T* row_at(const Rows<T>& rows, unsigned r) {
  return rows.data + static_cast<std::uint64_t>(r) * static_cast<unsigned>(rows.stride);
}

/// Where sums over rows go.
struct GradientSums {
  SumsOf<float> gain;
  SumsOf<float> bias;
  SumsOf<float> branch;
};
/// What is known of a row.
struct RowNumbers {
  float rstd;
  float mean;
  float branch_rstd;
};

// The rows that come, in this order.
enum : int { kOfSum, kOfDy, kOfDsum, kOfBranch, kTensors };

template <class Team>
using RowsOf = Incoming<Team::kThreads, kTensors>;

using WithNorm = NormAgain<AddNormBackward, Bf16>;

/// kCentred: layer norm, which may have a bias.
template <class Team, bool kCentred, bool kBranch>
__global__ void __launch_bounds__(Team::kThreads, 2)
    gradient_kernel(const WithNorm both, const RowWalk walk, const GradientSums sums_to) {
  const AddNormBackward<Bf16>& a = both.gradient;
  using In = RowsOf<Team>;
  constexpr int kBiasSum = 1;
  constexpr int kBranchSum = kCentred ? 2 : 1;
  constexpr int kColumnSums = 1 + int{kCentred} + int{kBranch};
  Team team(walk);
  SumsOf<float> to[kColumnSums];
  to[0] = sums_to.gain;
  if constexpr (kCentred) to[kBiasSum] = sums_to.bias;
  if constexpr (kBranch) to[kBranchSum] = sums_to.branch;
  ColumnSums<kColumnSums, Team, float, float> over_rows(team, walk, to);
  auto& sums_of = over_rows.at;

  const bool there = team.lane * N < team.width;  // else it takes part with what another has
  const int column = there ? team.lane * N : 0;
  float gain[N];
  [[maybe_unused]] float branch_gain[N];
  read_gain(a.gain, column, static_cast<float>(a.gain_offset), gain);
  if constexpr (kBranch) {
    read_gain(a.branch.gain, column, static_cast<float>(a.branch.gain_offset), branch_gain);
  }
  const float weight = 1 / static_cast<float>(team.width);
  const auto index = static_cast<unsigned>(team.index);
  const auto scale = static_cast<float>(a.scale);
  const bool plain_dx = a.scale == 1 && a.dx_into == Into::set;

  const unsigned begin = blockIdx.x * static_cast<unsigned>(walk.chunk_rows);
  const unsigned end =
      min(begin + static_cast<unsigned>(walk.chunk_rows), static_cast<unsigned>(walk.rows));
  const auto send_for = [&](unsigned r, int stage) {
    if (r < end) {
      In::send_for(stage, kOfSum, row_at(a.sum, r) + column);
      In::send_for(stage, kOfDy, row_at(a.dy, r) + column);
      if (a.dsum) In::send_for(stage, kOfDsum, row_at(a.dsum, r) + column);
      if constexpr (kBranch) In::send_for(stage, kOfBranch, row_at(a.branch.x, r) + column);
    }
    close_copies();
  };
  const auto numbers_of = [&](unsigned wanted) -> RowNumbers {
    const unsigned r = min(wanted, end - 1);
    return {.rstd = a.rstd[r],
            .mean = kCentred ? a.mean[r] + a.shift[r] : 0.0F,
            .branch_rstd = kBranch ? a.branch.rstd[r] : 0.0F};
  };
#pragma unroll
  for (int stage = 0; stage < In::kStages - 1; ++stage) {
    send_for(begin + index + stage * Team::kTeams, stage);
  }
  RowNumbers ahead = numbers_of(begin + index);
  int stage = 0;
  for (unsigned base = begin; base < end; base += Team::kTeams) {
    const unsigned r = base + index;
    const bool on = there && r < end;
    const auto [rstd, mean, branch_rstd] = ahead;
    ahead = numbers_of(r + Team::kTeams);
    const int free = stage == 0 ? In::kStages - 1 : stage - 1;  // read with the row before
    send_for(r + (In::kStages - 1) * Team::kTeams, free);
    wait_for_copies<In::kStages - 1>();
    float x[N];  // the sum less its mean
    float dy[N];
    In::get(stage, kOfSum).get(x);
    In::get(stage, kOfDy).get(dy);
    float sums[kCentred ? 2 : 1] = {};  // Σ dy·gain·x, Σ dy·gain
    if (on) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if constexpr (kCentred) {
          x[i] -= mean;
          sums_of[kBiasSum][0][i] += dy[i];
          sums[1] = fmaf(dy[i], gain[i], sums[1]);
        }
        const float product = dy[i] * x[i];
        sums[0] = fmaf(product, gain[i], sums[0]);
        sums_of[0][0][i] = fmaf(product, rstd, sums_of[0][0][i]);
      }
    }
    if (on && both.y) {
      float y[N];
      read_bias(both.bias, column, y);
#pragma unroll
      for (int i = 0; i < N; ++i) y[i] = normed(x[i], 0.0F, rstd, gain[i], y[i]);
      put_row(row_at(both.y, r) + column, y, Into::set);
    }
    team.sum(sums);
    const float bend = rstd * (rstd * sums[0] * weight);  // rstd·x̂·⟨dy·gain, x̂⟩ is bend·x
    float along = 0;
    if constexpr (kCentred) along = sums[1] * weight;
    float t[N] = {};  // the gradient of the sum
    if (a.dsum) In::get(stage, kOfDsum).get(t);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      t[i] = plus_norm_gradient(t[i], rstd, dy[i], gain[i], along, x[i], bend);
    }
    Eight total;  // t as it is stored
    total.set(t);
    if (on && a.dx) {  // before db, which may be the same rows, to be added to
      if (plain_dx) {
        total.store(row_at(a.dx, r) + column);
      } else {
        float scaled[N];
#pragma unroll
        for (int i = 0; i < N; ++i) scaled[i] = scale * t[i];
        put_row(row_at(a.dx, r) + column, scaled, a.dx_into);
      }
    }
    if (on && a.db) put_row(row_at(a.db, r) + column, t, a.db_into);
    if constexpr (kBranch) {
      float b[N];
      In::get(stage, kOfBranch).get(b);
      total.get(t);
      float branch_sums[1] = {};  // Σ t·gain·b
      if (on) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float product = t[i] * b[i];
          branch_sums[0] = fmaf(product, branch_gain[i], branch_sums[0]);
          sums_of[kBranchSum][0][i] = fmaf(product, branch_rstd, sums_of[kBranchSum][0][i]);
        }
      }
      team.sum(branch_sums);
      if (on && a.branch.dx) {
        const float branch_bend = branch_rstd * (branch_rstd * branch_sums[0] * weight);
#pragma unroll
        for (int i = 0; i < N; ++i) {
          b[i] =
              plus_norm_gradient(0.0F, branch_rstd, t[i], branch_gain[i], 0.0F, b[i], branch_bend);
        }
        put_row(row_at(a.branch.dx, r) + column, b, a.branch.dx_into);
      }
    }
    stage = stage + 1 < In::kStages ? stage + 1 : 0;
  }
  over_rows.finish(team);
}

constexpr Index kMostPacks = 256;

/// f(std::type_identity<Team>{}) with the team for rows of so many packs: as many threads as there
/// are registers for, two blocks to a multiprocessor.
template <class F>
void with_row_team(Index packs, F&& f) {
  const auto with = [&]<int kSpan, int kThreads>() {
    f(std::type_identity<RowTeam<kSpan, 1, N, kThreads>>{});
  };
  if (packs <= 8) return with.template operator()<8, 384>();
  if (packs <= 32) return with.template operator()<32, 384>();
  if (packs <= 64) return with.template operator()<64, 384>();
  if (packs <= 96) return with.template operator()<96, 384>();
  if (packs <= 128) return with.template operator()<128, 384>();
  if (packs <= 192) return with.template operator()<192, 384>();
  return with.template operator()<kMostPacks, kMostPacks>();
}

}  // namespace

bool run_quick(const WithNorm& both) {
  const AddNormBackward<Bf16>& a = both.gradient;
  const RmsNormBackward<Bf16>& branch = a.branch;
  const Index cols = a.sum.cols;
  const bool fit = row_packs(a.sum, N) && row_packs(a.dsum, N) && row_packs(a.dy, N) &&
                   row_packs(a.dx, N) && row_packs(a.db, N) && row_packs(a.gain, N) &&
                   row_packs(branch.x, N) && row_packs(branch.dx, N) && row_packs(branch.gain, N) &&
                   row_packs(both.y, N) && row_packs(both.bias, N);
  constexpr Index kCounted = Index{1} << 31;  // in 32 bits
  const bool sized = cols % N == 0 && cols / N <= kMostPacks && a.sum.rows < kCounted &&
                     (std::max({a.sum.stride,
                                a.dy.stride,
                                a.dsum.stride,
                                a.dx.stride,
                                a.db.stride,
                                branch.x.stride,
                                branch.dx.stride,
                                both.y.stride}) < kCounted);
  if (!fit || !sized || (a.mean == nullptr && a.dbias != nullptr)) return false;
  const GroupSums<float> dgain(a.dgain, a.gain_partials, cols, cols, false);
  const GroupSums<float> dbias(a.dbias, a.bias_partials, cols, cols, false);
  const GroupSums<float> dbranch(branch.dgain, branch.partials, cols, cols, false);
  with_row_team(cols / N, [&]<class Team>(std::type_identity<Team>) {
    const RowWalk walk = row_walk<Team>(a.sum.rows, 1, cols, OverRows::folded);
    const auto start = [&](auto centred, auto has_branch) {
      launch_tiles("the gradient of norms of rows",
                   walk.grid.x,
                   Team::kThreads,
                   RowsOf<Team>::kBytes,
                   gradient_kernel<Team, centred, has_branch>,
                   both,
                   walk,
                   GradientSums{dgain.to, dbias.to, dbranch.to});
    };
    const auto with_branch = [&](auto centred) {
      if (branch.x) {
        start(centred, std::true_type{});
      } else {
        start(centred, std::false_type{});
      }
    };
    if (a.mean != nullptr) {
      with_branch(std::true_type{});
    } else {
      with_branch(std::false_type{});
    }
  });
  dgain.finish(a.sum.rows, a.dgain_into);
  dbias.finish(a.sum.rows, a.dbias_into);
  dbranch.finish(a.sum.rows, branch.dgain_into);
  return true;
}

bool run_quick(const AddNormBackward<Bf16>& a) { return run_quick(WithNorm{a, nullptr, {}}); }

template <template <class> class Gradient, class T>
bool run(Cuda, const NormAgain<Gradient, T>& a) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if constexpr (std::is_same_v<Gradient<T>, AddNormBackward<T>>) {
      return run_quick(a);
    } else {
      return a.gradient.group == a.gradient.x.cols &&
             run_quick(WithNorm{as_add_norm(a.gradient), a.bias, a.y});
    }
  }
  return false;
}
template bool run(Cuda, const NormAgain<AddNormBackward, float>&);
template bool run(Cuda, const NormAgain<AddNormBackward, Bf16>&);
template bool run(Cuda, const NormAgain<LayerNormBackward, float>&);
template bool run(Cuda, const NormAgain<LayerNormBackward, Bf16>&);
template bool run(Cuda, const NormAgain<RmsNormBackward, float>&);
template bool run(Cuda, const NormAgain<RmsNormBackward, Bf16>&);

}  // namespace norma::kernels
