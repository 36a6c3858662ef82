// Hopper's products of a warpgroup (four warps): 64 rows by N columns, 16 deep, bf16 into f32.
//
// Squares. Every operand in shared memory consists of squares of 64 rows by 64 bf16: 8 KiB, 1 KiB
// aligned, row r at byte 128·r, its 16-byte chunk c at place c ^ (r % 8): what the copy engine
// writes with a swizzle of 128 bytes. A tile of 64 rows by 128 is two squares, left and right.
//
// Descriptors (bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride offset / 16, 62-63
// the swizzle). A square is read in one of two ways:
//   as rows     the depth runs along a row: the stride offset leads from eight rows to the next
//               eight (1024), the leading offset is not used; 16 deeper is 32 bytes further, 64
//               deeper the next square.
//   turned      the depth runs down the rows, a row is 64 of the N columns: the stride offset leads
//               from eight rows to the next eight (1024), the leading offset from 64 columns to the
//               next 64 (the next square, 8192); 16 deeper is 2048 bytes further.
// A strip is 32 of the depth instead of 64: 64 rows of 64 bytes, chunk c at place c ^ (r / 2 % 4).
// Read as rows its stride offset is 512.
//
// Fragments. Of a product a thread holds d[4n + 2r + e]: row 16·warp + lane / 4 + 8r, column
// 8n + 2·(lane % 4) + e. Of a left factor in registers, 16 deep, it holds four pairs a[2h + r] of
// neighbours: row as above, depth 8h + 2·(lane % 4) + {0, 1}. So the pairs of n = 2k and 2k + 1,
// rounded, are the left factor of the k-th step of the next product.
#pragma once

#include <cstdint>

#include "norma/kernels/cuda/wgmma_instructions.cuh"

namespace norma::kernels::wgmma {

inline constexpr int kSide = 64;  // of a square
inline constexpr int kSquareBytes = kSide * kSide * 2;
inline constexpr int kStripBytes = kSquareBytes / 2;

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
/// The row of a warpgroup's product that a thread's element with this r lies in, and the column of
/// its first element in the n-th eight.
__device__ inline int row_of(int r) {
  return static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16 + lane() / 4 + 8 * r;
}
__device__ inline int column_of(int n) { return 8 * n + 2 * (lane() % 4); }

/// Which warpgroup of the block this is; the compiler sees that it is the same for a whole warp,
/// without which it makes products wait for each other.
__device__ inline int warpgroup_of_thread() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
}

enum class Swizzle : std::uint64_t { of_128 = 1, of_64 = 2 };  // bytes
template <int kStride = 1024, Swizzle kSwizzle = Swizzle::of_128>
__device__ inline std::uint64_t descriptor(unsigned address) {
  constexpr std::uint64_t kLeading = kSquareBytes / 16;
  return (address & 0x3FFFFU) / 16 | kLeading << 16 | std::uint64_t{kStride / 16} << 32 |
         static_cast<std::uint64_t>(kSwizzle) << 62;
}
/// The k-th step of 16 in the depth of a tile, from the descriptor of its begin or its address: of
/// kRows rows, where squares below each other come before those beside them; turned, of kColumns
/// columns, where it is the other way round. An addition each: descriptors that are put together
/// from addresses step by step cost four instructions more.
template <int kRows = kSide>
__device__ inline std::uint64_t rows_step(std::uint64_t tile, int k) {
  constexpr int kBeside = kRows / kSide * kSquareBytes;
  return tile + static_cast<unsigned>(k / 4 * kBeside + k % 4 * 32) / 16;
}
template <int kRows = kSide>
__device__ inline std::uint64_t rows_step(unsigned tile, int k) {
  return rows_step<kRows>(descriptor(tile), k);
}
template <int kColumns = kSide>
__device__ inline std::uint64_t turned_step(std::uint64_t tile, int k) {
  constexpr int kBelow = kColumns / kSide * kSquareBytes;
  return tile + static_cast<unsigned>(k / 4 * kBelow + k % 4 * 2048) / 16;
}
template <int kColumns = kSide>
__device__ inline std::uint64_t turned_step(unsigned tile, int k) {
  return turned_step<kColumns>(descriptor(tile), k);
}
/// The descriptor of a tile of which the compiler sees that it is the same for a whole warp, as it
/// must be: what it does not see it takes from lane to lane for every product.
__device__ inline std::uint64_t tile_of_warp(unsigned address) {
  return descriptor(__shfl_sync(0xFFFFFFFFU, address, 0));
}
/// The same of rows where a tile consists of strips.
__device__ inline std::uint64_t rows_step_of_strips(unsigned tile, int k) {
  return descriptor<512, Swizzle::of_64>(tile + static_cast<unsigned>(k * 32));
}

// Fragments from and to squares, 16 columns at a time: four pairs of neighbours a thread, as a left
// factor holds them. Lane 8m + i names row i of matrix m; the matrices are a[0] .. a[3].
__device__ inline unsigned fragment_at(unsigned tile, int k) {
  const int row =
      static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16 + lane() % 8 + lane() / 8 % 2 * 8;
  const int chunk = (2 * (k % 4) + lane() / 16) ^ (row % 8);
  return tile + static_cast<unsigned>(k / 4 * kSquareBytes + row * 128 + chunk * 16);
}
__device__ inline void load_fragment(unsigned tile, int k, unsigned (&to)[4]) {
  load_matrices(fragment_at(tile, k), to);
}
__device__ inline void store_fragment(unsigned tile, int k, const unsigned (&from)[4]) {
  store_matrices(fragment_at(tile, k), from);
}
/// The warpgroup's 64 rows of a tile, 16·kSteps wide, as left factors in registers.
template <int kSteps>
__device__ inline void load_left(unsigned tile, unsigned (&to)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) load_fragment(tile, k, to[k]);
}

/// The k-th 16 columns of a product, which `from` is the first number of, rounded, into a square.
__device__ inline void store_rounded(unsigned tile, int k, const float* from) {
  const unsigned pairs[4] = {rounded_pair(from[0], from[1]),
                             rounded_pair(from[2], from[3]),
                             rounded_pair(from[4], from[5]),
                             rounded_pair(from[6], from[7])};
  store_fragment(tile, k, pairs);
}

}  // namespace norma::kernels::wgmma
