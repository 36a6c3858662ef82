#include <algorithm>

#include "norma/kernels/cuda/sort_ids.cuh"
#include "norma/kernels/embedding.h"

namespace norma::kernels {

namespace {

constexpr int kRowThreads = 256;  // a warp for each row

template <class T, int N>
__global__ void forward_kernel(EmbeddingForward<T> a) {
  using C = Math<T>;
  const Index n = static_cast<Index>(blockIdx.x) * (kRowThreads / 32) + threadIdx.x / 32;
  if (n >= a.y.rows) return;
  const Index t = n % a.ids.cols;
  const Index id = a.ids(n / a.ids.cols, t);
  const bool inside = id >= 0 && id < a.vocabulary;
  const T* entry = a.table + (inside ? id : 0) * a.y.cols;
  const T* position =
      a.positions == nullptr ? nullptr : a.positions + (a.first_position + t) * a.y.cols;
  const C scale = inside ? static_cast<C>(a.scale) : static_cast<C>(NAN);
#pragma unroll 4
  for (Index c = static_cast<Index>(threadIdx.x % 32) * N; c < a.y.cols; c += 32 * N) {
    C values[N];
    read_pack(entry + c, values);
    C more[N] = {};
    if (position != nullptr) read_pack(position + c, more);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = scale * (values[k] + more[k]);
    write_pack(a.y.row(n) + c, values);
  }
}

/// The rows of ids that do not occur.
template <class W>
__global__ void clear_kernel(
    SortedIds sorted, Index tokens, Index vocabulary, W* dtable, Index cols) {
  const Index v = static_cast<Index>(blockIdx.x) * (kRowThreads / 32) + threadIdx.x / 32;
  if (v >= vocabulary) return;
  // The first place whose id is not below v lies from low to high; each lane looks at one between.
  const auto lane = static_cast<Index>(threadIdx.x % 32);
  Index low = 0;
  for (Index high = tokens; low < high;) {
    const Index step = (high - low + 31) / 32;
    const Index place = low + lane * step;
    const bool below = place < high && sorted.ids[place] < v;
    const Index lanes = __popc(__ballot_sync(0xFFFFFFFFU, below));
    high = min(high, low + lanes * step);
    if (lanes > 0) low += (lanes - 1) * step + 1;
  }
  if (low < tokens && sorted.ids[low] == v) return;
  for (Index c = lane; c < cols; c += 32) dtable[v * cols + c] = 0;
}

constexpr int kPiece = EmbeddingSort::kPiece;
constexpr int kAhead = 4;           // rows on their way at once, with the entries they are added to
constexpr int kPieceThreads = 256;  // at most; registers for 24 warps on a multiprocessor

/// Sums a piece of the sorted tokens, id by id. An id that lies within the piece is done; what it
/// shares with the piece before goes to partial row 2·piece, with the one behind to 2·piece + 1
/// (with both: to the first).
template <class T, int N>
__global__ void __launch_bounds__(kPieceThreads, 3)
    piece_kernel(EmbeddingBackward<T> a, SortedIds sorted) {
  using C = Math<T>;
  __shared__ std::int32_t ids[kPiece + 2];  // with the neighbours on both sides, −1 for none
  __shared__ std::int32_t tokens[kPiece];
  const Index piece = blockIdx.x;
  const Index begin = piece * kPiece;
  const int count = static_cast<int>(min(static_cast<Index>(kPiece), a.dy.rows - begin));
  for (int i = threadIdx.x; i < count + 2; i += blockDim.x) {
    const Index n = begin + i - 1;
    ids[i] = n >= 0 && n < a.dy.rows ? sorted.ids[n] : -1;
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) tokens[i] = sorted.tokens[begin + i];
  __syncthreads();
  const Index c = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (c >= a.dy.cols) return;

  // Whether the id at place i of the piece ends there, and how far it reaches: ids are sorted.
  const auto ends = [&](int i) { return i == count - 1 || ids[i + 2] != ids[i + 1]; };
  const auto before = [&](int i) { return ids[i + 1] == ids[0]; };
  const auto within = [&](int i) { return !before(i) && ids[i + 1] != ids[count + 1]; };
  const bool add = a.dtable_into == Into::add;
  C sum[N] = {};
  for (int i = 0; i < count; i += kAhead) {
    Pack<T, N> rows[kAhead];
    Pack<Wide<T>, N> entries[kAhead];  // what ids are added to that end here
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k >= count) continue;
      rows[k] = load_pack<N>(a.dy.row(tokens[i + k]) + c);
      const Index id = ids[i + k + 1];
      if (add && ends(i + k) && within(i + k) && id < a.vocabulary) {
        entries[k] = load_pack<N>(a.dtable + id * a.dy.cols + c);
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k >= count) continue;
      C values[N];
      unpack(rows[k], values);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += values[j];
      if (!ends(i + k)) continue;
      const Index id = ids[i + k + 1];
      if (id < a.vocabulary) {
        if (within(i + k)) {
          C entry[N] = {};
          if (add) unpack(entries[k], entry);
#pragma unroll
          for (int j = 0; j < N; ++j) sum[j] = entry[j] + static_cast<C>(a.scale) * sum[j];
          write_pack(a.dtable + id * a.dy.cols + c, sum);
        } else {
          write_pack(a.partials + (2 * piece + (before(i + k) ? 0 : 1)) * a.dy.cols + c, sum);
        }
      }
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] = 0;
    }
  }
}

/// Puts the id together that begins in a piece and goes on behind it.
template <class T, int N>
__global__ void join_kernel(EmbeddingBackward<T> a, SortedIds sorted) {
  using C = Math<T>;
  const Index c = (static_cast<Index>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  const Index begin = static_cast<Index>(blockIdx.x) * kPiece;
  const Index end = begin + kPiece;
  if (c >= a.dy.cols || end >= a.dy.rows) return;
  const std::int32_t id = sorted.ids[end - 1];
  if (sorted.ids[end] != id || id >= a.vocabulary) return;
  if (begin > 0 && sorted.ids[begin - 1] == id) return;  // it began earlier
  C sum[N];
  read_pack(a.partials + (2 * static_cast<Index>(blockIdx.x) + 1) * a.dy.cols + c, sum);
  constexpr int kAtOnce = 8;  // pieces: frequent ids go through many
  bool same[kAtOnce] = {};    // whether the id goes on in a piece
  Index piece = blockIdx.x + 1;
  do {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const Index first = (piece + k) * kPiece;
      same[k] = first < a.dy.rows && sorted.ids[first] == id;
    }
    Pack<Wide<T>, N> parts[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (same[k]) parts[k] = load_pack<N>(a.partials + 2 * (piece + k) * a.dy.cols + c);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (!same[k]) continue;
      C more[N];
      unpack(parts[k], more);
#pragma unroll
      for (int j = 0; j < N; ++j) sum[j] += more[j];
    }
    piece += kAtOnce;
  } while (same[kAtOnce - 1]);
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] *= static_cast<C>(a.scale);
  put_pack(a.dtable + id * a.dy.cols + c, sum, a.dtable_into);
}

unsigned row_blocks(Index rows) {
  return static_cast<unsigned>((rows + kRowThreads / 32 - 1) / (kRowThreads / 32));
}

}  // namespace

template <class T>
void run(Cuda, const EmbeddingForward<T>& a) {
  const bool all = packs(a.y, kPack<T>) && packs(a.table, a.y.cols, kPack<T>) &&
                   packs(a.positions, a.y.cols, kPack<T>);
  with_pack<T>(all, [&](auto n) {
    launch("embedding", row_blocks(a.y.rows), kRowThreads, 0, forward_kernel<T, n>, a);
  });
}
template void run(Cuda, const EmbeddingForward<float>&);
template void run(Cuda, const EmbeddingForward<Bf16>&);

template <class T>
void run(Cuda, const EmbeddingBackward<T>& a) {
  const EmbeddingSort sort{.tokens = a.dy.rows, .vocabulary = a.vocabulary};
  const SortedIds sorted = sort_ids(a.ids, sort, a.integers);
  if (a.dtable_into == Into::set) {
    launch("clearing rows of a table",
           row_blocks(a.vocabulary),
           kRowThreads,
           0,
           clear_kernel<Wide<T>>,
           sorted,
           a.dy.rows,
           a.vocabulary,
           a.dtable,
           a.dy.cols);
  }
  const bool all = packs(a.dy, kPack<T>) && packs(a.dtable, a.dy.cols, kPack<T>) &&
                   packs(a.partials, a.dy.cols, kPack<T>);
  with_pack<T>(all, [&](auto n) {
    const auto wide = static_cast<int>(a.dy.cols / n);
    const int threads = std::min(kPieceThreads, (wide + 31) / 32 * 32);
    const dim3 grid(static_cast<unsigned>(sort.pieces()), device::blocks_for(wide, threads), 1);
    launch("the gradient of a table", grid, threads, 0, piece_kernel<T, n>, a, sorted);
    launch("joining rows of a table", grid, threads, 0, join_kernel<T, n>, a, sorted);
  });
}
template void run(Cuda, const EmbeddingBackward<float>&);
template void run(Cuda, const EmbeddingBackward<Bf16>&);

}  // namespace norma::kernels
