// cross_entropy with a scale per class. A cluster of blocks walks over rows; each block has its
// share of the columns, the same for all rows. So the logits are read and written once, and what
// belongs to a column (its scale, the sum that makes up dscale) stays in the registers of the
// thread that has the column.
//
// Nobody waits for a whole block. Of each block one warp leads: it has the copy engine fetch rows
// ahead, puts together what the others have seen of a row, exchanges that with the other blocks
// and says what the row's gradient is made of. Meanwhile the others look at the next rows, and then
// write the gradient.
#include <algorithm>

#include "norma/kernels/cuda/cluster.cuh"
#include "norma/kernels/cuda/column_sums.cuh"
#include "norma/kernels/cuda/loss_columns.cuh"
#include "norma/kernels/cuda/tile_copy.cuh"

namespace norma::kernels {

namespace {

using tile_copy::arrive;
using tile_copy::arrive_expecting;
using tile_copy::Place;
using tile_copy::wait;

constexpr int N = OwnColumns::N;
constexpr int kWarps = OwnColumns::kWarps;  // that work
constexpr int kThreads = OwnColumns::kThreads + 32;
// Rows that are looked at before the first of them is written: one while its fate is decided, one
// more because the blocks of a cluster are never equally far.
constexpr int kAhead = 2;
// Rows in shared memory: those, one that is written, the others on their way.
constexpr int kStages = 7;
constexpr int kSides = kAhead + 1;
// A block sends what it has seen of row i + 2 when another may still read what it sent of row i.
constexpr int kLetters = 4;
using LogitPack = OwnColumns::LogitPack;

/// What a block has seen of a row, in the form that travels.
struct alignas(16) Letter {
  float top;
  float others;
  float hit;  // the logit of the target, if the block has it
  float unused;
};
static_assert(sizeof(Letter) == sizeof(float4));

struct Plan {
  Index clusters;  // that take turns at the rows
  int blocks;      // of a cluster
  int packs;       // of a block, for each row
};

/// Where the warps of a block meet. By turns, for rows are looked at before the last one is done.
struct Board {
  Letter letters[kLetters][kMostClusterBlocks];
  RowFate fates[kSides];
  Part seen[kSides][kWarps];
  // Barriers: a row has come; every warp has looked at it; all letters are there; its fate is.
  std::uint64_t come[kStages];
  std::uint64_t looked[kSides];
  std::uint64_t told[kLetters];
  std::uint64_t decided[kSides];
};

__device__ inline unsigned at(const std::uint64_t& barrier) { return shared_address(&barrier); }

struct Walk {
  const QuickLoss& a;
  const Plan& plan;
  Board& board;
  LogitPack* stages;  // (kStages, plan.packs)
  Index first;        // row
  int rows;
  int rank;

  __device__ int offset() const { return rank * plan.packs * N; }  // the first class
  __device__ int packs() const {
    return min(plan.packs, static_cast<int>(a.u.cols) / N - rank * plan.packs);
  }
  __device__ Index row(int i) const { return first + i * plan.clusters; }
  __device__ int target(int i) const { return i < rows ? a.targets[row(i)] : -1; }
  __device__ const LogitPack* logits(int stage) const { return stages + stage * plan.packs; }
  /// Of a class in this block.
  __device__ unsigned column(int target) const {
    return static_cast<unsigned>(target) - static_cast<unsigned>(offset());
  }
  __device__ float factor(float scale) const {
    return static_cast<float>(kBitsPerNat * a.scale_mult) * scale;
  }

  /// By one thread.
  __device__ void make_barriers() const {
    for (std::uint64_t& barrier : board.come) tile_copy::make_barrier(at(barrier), 1);
    for (std::uint64_t& barrier : board.looked)
      tile_copy::make_barrier(at(barrier), OwnColumns::kThreads);
    for (std::uint64_t& barrier : board.told) tile_copy::make_barrier(at(barrier), 1);
    for (std::uint64_t& barrier : board.decided) tile_copy::make_barrier(at(barrier), 32);
    tile_copy::publish_barriers();
  }

  /// What most warps do.
  __device__ void work() const {
    OwnColumns own{};
    own.thread = static_cast<int>(threadIdx.x) - 32;
    own.packs = packs();
#pragma unroll
    for (int j = 0; j < OwnColumns::kEach; ++j) {
      if (!own.has(j)) continue;
#pragma unroll
      for (int k = 0; k < N; ++k)
        own.factors[j][k] = factor(a.scale[offset() + own.pack(j) * N + k]);
    }
    const std::int32_t* targets = a.targets + first;
    Bf16* du = a.du ? a.du.row(first) + offset() : nullptr;
    // Of the row that is looked at, and of the one that is written.
    Place<kStages> place;
    Place<kStages> old_place;
    Place<kSides> side;
    Place<kSides> old_side;
    int next_target = *targets;
    for (int i = 0; i < rows + kAhead; ++i) {
      const int of_row = next_target;
      targets += plan.clusters;
      if (i + 1 < rows) next_target = *targets;
      if (i < rows) {
        wait(at(board.come[place.stage]), place.phase);
        const Part part = own.look(logits(place.stage), column(of_row));
        if (threadIdx.x % 32 == 0) board.seen[side.stage][own.thread / 32] = part;
        // Every thread for itself: it is done with the row written last and what was said of it.
        arrive(at(board.looked[side.stage]));
        place.next();
        side.next();
      }
      if (i >= kAhead) {
        wait(at(board.decided[old_side.stage]), old_side.phase);
        if (du != nullptr) {
          const RowFate fate = board.fates[old_side.stage];
          if (fate.target == -1) {  // such a row may hold anything
            own.write_zeros(du);
          } else {
            own.write_gradient(logits(old_place.stage), du, fate, column(fate.target));
          }
          du += plan.clusters * a.du.stride;
        }
        old_place.next();
        old_side.next();
      }
    }
    if (a.dscale == nullptr) return;
    float* const partials = a.partials + first * a.u.cols + offset();
#pragma unroll
    for (int j = 0; j < OwnColumns::kEach; ++j) {
      if (own.has(j)) write_pack(partials + own.pack(j) * N, own.sums[j]);
    }
  }

  /// By one thread.
  __device__ void fetch(int i, int stage) const {
    if (i >= rows) return;
    const auto bytes = static_cast<unsigned>(packs()) * static_cast<unsigned>(sizeof(LogitPack));
    arrive_expecting(at(board.come[stage]), bytes);
    const unsigned to = shared_address(logits(stage));
    tile_copy::copy_span(to, a.u.row(row(i)) + offset(), bytes, at(board.come[stage]));
  }

  /// What the first warp does.
  __device__ void lead() const {
    const int lane = static_cast<int>(threadIdx.x);
    const auto share = static_cast<float>(1 / *a.tokens);
    const auto inside = [&](int c) { return c >= 0 && c < a.u.cols; };
    if (lane == 0) {
      for (int i = 0; i < kStages; ++i) fetch(i, i);
    }
    int of_row = target(0);
    // Made a factor no sooner than it is used: it is on its way while the row is looked at.
    float hit_scale = inside(of_row) ? a.scale[of_row] : 0;
    Place<kStages> place;
    Place<kStages> done;
    Place<kSides> side;
    Place<kLetters> slot;
    for (int i = 0; i < rows; ++i, place.next(), side.next(), slot.next()) {
      const int next_target = target(i + 1);
      wait(at(board.come[place.stage]), place.phase);
      // Whoever has looked at this row has written the one kAhead + 1 before it.
      wait(at(board.looked[side.stage]), side.phase);
      if (i > kAhead) {
        __syncwarp();  // and these lanes have read its target's logit
        if (lane == 0) fetch(i - kAhead - 1 + kStages, done.stage);
        done.next();
      }
      Part all = gather<16>(lane % 16 < kWarps ? board.seen[side.stage][lane % 16] : no_part());
      const unsigned here = column(of_row);
      const bool mine = inside(of_row) && here < static_cast<unsigned>(packs() * N);
      const LogitPack* const u = logits(place.stage);
      float hit_u = mine ? read<float>(u[here / N].at[here % N]) : 0;
      if (plan.blocks > 1) {
        exchange(slot, all, hit_u, inside(of_row) ? of_row / (plan.packs * N) : rank);
      }
      const float beside = distance(factor(hit_scale), hit_u, all.top);
      const auto end_with = [&](bool loss) {
        return end_row({a.u.cols, a.z_loss}, of_row, all, beside, share, loss);
      };
      const RowEnd end = end_with(false);
      if (lane == 0) {
        board.fates[side.stage] = {all.top, kNatsPerBit * end.grow, kNatsPerBit * end.hit, of_row};
      }
      arrive(at(board.decided[side.stage]));  // every lane: it has read what was seen
      // Nobody waits for the loss.
      if (lane == 0 && rank == 0) a.losses[row(i)] = static_cast<double>(end_with(true).loss);
      of_row = next_target;
      hit_scale = inside(of_row) ? a.scale[of_row] : 0;
    }
  }
  /// Puts together what all blocks have seen; the logit of the target is known to block `owner`.
  __device__ void exchange(const Place<kLetters>& slot, Part& all, float& hit, int owner) const {
    const auto lane = threadIdx.x;
    Letter* const letters = board.letters[slot.stage];
    const unsigned told = at(board.told[slot.stage]);
    const auto blocks = static_cast<unsigned>(plan.blocks);
    if (lane == 0) arrive_expecting(told, blocks * static_cast<unsigned>(sizeof(Letter)));
    if (lane < blocks) {
      tile_copy::send(shared_address(&letters[rank]), {all.top, all.others, hit, 0}, told, lane);
    }
    wait<true>(told, slot.phase);
    hit = letters[owner].hit;
    const Letter& one = letters[lane % kMostClusterBlocks];
    const bool is_there = lane % kMostClusterBlocks < blocks;
    all = gather<kMostClusterBlocks>(is_there ? Part{one.top, one.others} : no_part());
  }
};

__global__ void __launch_bounds__(kThreads, 1) scaled_kernel(QuickLoss a, Plan plan) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned char* const memory = block_memory();
  __shared__ Board board;
  const Index first = blockIdx.x / static_cast<unsigned>(plan.blocks);
  const Walk walk{.a = a,
                  .plan = plan,
                  .board = board,
                  .stages = reinterpret_cast<LogitPack*>(memory),
                  .first = first,
                  .rows = static_cast<int>((a.u.rows - first + plan.clusters - 1) / plan.clusters),
                  .rank = static_cast<int>(blockIdx.x) % plan.blocks};
  if (threadIdx.x == 0) walk.make_barriers();
  cluster_sync(plan.blocks);  // all have begun: their memory may be written
  if (threadIdx.x < 32) {
    walk.lead();
  } else {
    walk.work();
  }
  cluster_sync(plan.blocks);  // and nobody ends while others may still write there
#else
  __trap();  // has_clusters() says no there
#endif
}

}  // namespace

bool run_scaled(const QuickLoss& a) {
  constexpr const char* kWhat = "cross entropy";
  if (!has_clusters()) return false;
  const auto packs_of_row = static_cast<int>(a.u.cols / N);
  Plan plan{.clusters = 0, .blocks = 1, .packs = packs_of_row};
  while (plan.blocks < kMostClusterBlocks && plan.packs > OwnColumns::kMostPacks) {
    plan.blocks *= 2;
    plan.packs = (packs_of_row + plan.blocks - 1) / plan.blocks;
  }
  // So many packs are shared that every block has some, the last at most seven less.
  if (plan.packs == 0 || plan.packs > OwnColumns::kMostPacks) return false;
  const std::size_t shared = static_cast<std::size_t>(kStages * plan.packs) * sizeof(LogitPack);
  // As many clusters as run at once, but no more than there is room for partial sums.
  const int fit = plan.blocks == 1
                      ? device::multiprocessors()
                      : clusters_at_once(kWhat, plan.blocks, kThreads, shared, scaled_kernel);
  if (fit == 0) return false;
  const Index most = a.dscale != nullptr ? gpu_chunks(a.u.rows).count : a.u.rows;
  plan.clusters = std::min<Index>(fit, most);
  launch_clusters(kWhat,
                  static_cast<unsigned>(plan.clusters * plan.blocks),
                  plan.blocks,
                  kThreads,
                  shared,
                  scaled_kernel,
                  a,
                  plan);
  if (a.dscale != nullptr) {
    const double factor = kBitsPerNat * a.scale_mult;
    finish_columns(a.partials, plan.clusters, a.u.cols, a.dscale, Into::set, factor);
  }
  return true;
}

}  // namespace norma::kernels
