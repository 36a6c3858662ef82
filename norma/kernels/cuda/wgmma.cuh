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

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels::wgmma {

inline constexpr int kSide = 64;  // of a square
inline constexpr int kSquareBytes = kSide * kSide * 2;
inline constexpr int kStripBytes = kSquareBytes / 2;
inline constexpr int kWarpgroup = 128;

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
/// The k-th step of 16 in the depth of a tile that begins at this address: of kRows rows, where
/// squares below each other come before those beside them; turned, of kColumns columns, where it is
/// the other way round.
template <int kRows = kSide>
__device__ inline std::uint64_t rows_step(unsigned tile, int k) {
  constexpr int kBeside = kRows / kSide * kSquareBytes;
  return descriptor(tile + static_cast<unsigned>(k / 4 * kBeside + k % 4 * 32));
}
template <int kColumns = kSide>
__device__ inline std::uint64_t turned_step(unsigned tile, int k) {
  constexpr int kBelow = kColumns / kSide * kSquareBytes;
  return descriptor(tile + static_cast<unsigned>(k / 4 * kBelow + k % 4 * 2048));
}
/// The same of rows where a tile consists of strips.
__device__ inline std::uint64_t rows_step_of_strips(unsigned tile, int k) {
  return descriptor<512, Swizzle::of_64>(tile + static_cast<unsigned>(k * 32));
}

/// Before the first product and wherever registers that products use were written by others.
__device__ inline void begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
/// Closes a group of products, which may be empty.
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
/// Waits until all groups but the last `kPending` are done.
template <int kPending>
__device__ inline void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from reading a product's registers before the wait above this.
template <int N>
__device__ inline void arrived(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
/// Keeps a left factor's registers from serving others before the wait above this.
template <int N>
__device__ inline void used(unsigned (&a)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
  }
}

// Operands of a product's asm: the registers of 64, 128 or 256 columns.
#define NORMA_8(how, i)                                                                 \
  how(d[i]), how(d[i + 1]), how(d[i + 2]), how(d[i + 3]), how(d[i + 4]), how(d[i + 5]), \
      how(d[i + 6]), how(d[i + 7])
#define NORMA_32(how, i) \
  NORMA_8(how, i), NORMA_8(how, i + 8), NORMA_8(how, i + 16), NORMA_8(how, i + 24)
#define NORMA_32_NAMES                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NORMA_64_NAMES                                                               \
  NORMA_32_NAMES                                                                     \
  ", "                                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NORMA_128_NAMES                                                                    \
  NORMA_64_NAMES                                                                           \
  ", "                                                                                     \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "       \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "       \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "   \
  "%125, %126, %127"
#define NORMA_LEFT "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define NORMA_PRODUCT(columns, add)       \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " add \
  ", 0;\n"                                \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 "

// d = a·b and d += a·b, where b is turned or lies in rows; a is a descriptor of rows or a fragment.
// What is only set is no operand: the compiler may use its registers up to there.
template <bool kTurned>
__device__ inline void multiply(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "0") "{" NORMA_32_NAMES
                                        "}, "
                                        "%32, %33, p, 1, 1, 0, %34;\n}\n"
               : NORMA_32("=f", 0)
               : "l"(a), "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply_add(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "1") "{" NORMA_32_NAMES
                                        "}, "
                                        "%32, %33, p, 1, 1, 0, %34;\n}\n"
               : NORMA_32("+f", 0)
               : "l"(a), "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply(float (&d)[32], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "0") "{" NORMA_32_NAMES
                                        "}, "
                                        "{%32, %33, %34, %35}, %36, p, 1, 1, %37;\n}\n"
               : NORMA_32("=f", 0)
               : NORMA_LEFT, "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply_add(float (&d)[32], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "1") "{" NORMA_32_NAMES
                                        "}, "
                                        "{%32, %33, %34, %35}, %36, p, 1, 1, %37;\n}\n"
               : NORMA_32("+f", 0)
               : NORMA_LEFT, "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply(float (&d)[64], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("128", "0") "{" NORMA_64_NAMES
                                         "}, "
                                         "{%64, %65, %66, %67}, %68, p, 1, 1, %69;\n}\n"
               : NORMA_32("=f", 0), NORMA_32("=f", 32)
               : NORMA_LEFT, "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply_add(float (&d)[64], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("128", "1") "{" NORMA_64_NAMES
                                         "}, "
                                         "{%64, %65, %66, %67}, %68, p, 1, 1, %69;\n}\n"
               : NORMA_32("+f", 0), NORMA_32("+f", 32)
               : NORMA_LEFT, "l"(b), "n"(kTurned ? 1 : 0));
}

template <bool kTurned>
__device__ inline void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("128", "0") "{" NORMA_64_NAMES
                                         "}, "
                                         "%64, %65, p, 1, 1, 0, %66;\n}\n"
               : NORMA_32("=f", 0), NORMA_32("=f", 32)
               : "l"(a), "l"(b), "n"(kTurned ? 1 : 0));
}
template <bool kTurned>
__device__ inline void multiply_add(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("128", "1") "{" NORMA_64_NAMES
                                         "}, "
                                         "%64, %65, p, 1, 1, 0, %66;\n}\n"
               : NORMA_32("+f", 0), NORMA_32("+f", 32)
               : "l"(a), "l"(b), "n"(kTurned ? 1 : 0));
}
/// d = a·b, or d += a·b where `add` is not 0.
template <bool kTurned>
__device__ inline void multiply(float (&d)[32], const unsigned (&a)[4], std::uint64_t b, int add) {
  asm volatile(NORMA_PRODUCT("64", "%37") "{" NORMA_32_NAMES
                                          "}, "
                                          "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
               : NORMA_32("+f", 0)
               : NORMA_LEFT, "l"(b), "r"(add), "n"(kTurned ? 1 : 0));
}
/// d = aᵀ·b and d += aᵀ·b, both turned: their depth runs down the rows.
__device__ inline void multiply_turned(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "0") "{" NORMA_32_NAMES
                                        "}, "
                                        "%32, %33, p, 1, 1, 1, 1;\n}\n"
               : NORMA_32("=f", 0)
               : "l"(a), "l"(b));
}
__device__ inline void multiply_add_turned(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  asm volatile(NORMA_PRODUCT("64", "1") "{" NORMA_32_NAMES
                                        "}, "
                                        "%32, %33, p, 1, 1, 1, 1;\n}\n"
               : NORMA_32("+f", 0)
               : "l"(a), "l"(b));
}

/// d = a·b, or d += a·b where `add` is not 0; 256 columns. Here a may be turned too: a square then
/// holds 64 of its rows.
template <bool kTurned, bool kLeftTurned = false>
__device__ inline void multiply(float (&d)[128], std::uint64_t a, std::uint64_t b, int add) {
  asm volatile(NORMA_PRODUCT("256", "%130") "{" NORMA_128_NAMES
                                            "}, "
                                            "%128, %129, p, 1, 1, %132, %131;\n}\n"
               : NORMA_32("+f", 0), NORMA_32("+f", 32), NORMA_32("+f", 64), NORMA_32("+f", 96)
               : "l"(a), "l"(b), "r"(add), "n"(kTurned ? 1 : 0), "n"(kLeftTurned ? 1 : 0));
}

#undef NORMA_8
#undef NORMA_32
#undef NORMA_32_NAMES
#undef NORMA_64_NAMES
#undef NORMA_128_NAMES
#undef NORMA_LEFT
#undef NORMA_PRODUCT

// Fragments from and to squares, 16 columns at a time: four pairs of neighbours a thread, as a left
// factor holds them. Lane 8m + i names row i of matrix m; the matrices are a[0] .. a[3].
__device__ inline unsigned fragment_at(unsigned tile, int k) {
  const int row =
      static_cast<int>(threadIdx.x) % kWarpgroup / 32 * 16 + lane() % 8 + lane() / 8 % 2 * 8;
  const int chunk = (2 * (k % 4) + lane() / 16) ^ (row % 8);
  return tile + static_cast<unsigned>(k / 4 * kSquareBytes + row * 128 + chunk * 16);
}
__device__ inline void load_fragment(unsigned tile, int k, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(fragment_at(tile, k))
               : "memory");
}
__device__ inline void store_fragment(unsigned tile, int k, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(
                   fragment_at(tile, k)),
               "r"(from[0]),
               "r"(from[1]),
               "r"(from[2]),
               "r"(from[3])
               : "memory");
}
/// The warpgroup's 64 rows of a tile, 16·K wide, as left factors in registers.
template <int K>
__device__ inline void load_left(unsigned tile, unsigned (&to)[K][4]) {
#pragma unroll
  for (int k = 0; k < K; ++k) load_fragment(tile, k, to[k]);
}

__device__ inline unsigned pair(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
__device__ inline float low_of(unsigned both) { return __uint_as_float(both << 16); }
__device__ inline float high_of(unsigned both) { return __uint_as_float(both & 0xFFFF0000U); }

/// The k-th 16 columns of a product, which `from` is the first number of, rounded, into a square.
__device__ inline void store_rounded(unsigned tile, int k, const float* from) {
  const unsigned pairs[4] = {pair(from[0], from[1]),
                             pair(from[2], from[3]),
                             pair(from[4], from[5]),
                             pair(from[6], from[7])};
  store_fragment(tile, k, pairs);
}

/// The warps of a warpgroup wait for each other.
__device__ inline void meet(int warpgroup) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(warpgroup + 1), "n"(kWarpgroup) : "memory");
}

/// Registers of each thread of a warpgroup from here on.
template <int kRegisters>
__device__ inline void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

}  // namespace norma::kernels::wgmma
