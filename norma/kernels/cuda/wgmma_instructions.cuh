// Hopper's instructions for products of a warpgroup, and those around them. What operands mean is
// in wgmma.cuh; the tests have a page of this name whose instructions a host carries out.
#pragma once

#include <cstdint>

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels::wgmma {

inline constexpr int kWarpgroup = 128;

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

/// Four 8 x 8 matrices of bf16 from and to shared memory: lane 8m + i names row i of matrix m, and
/// has of matrix m the pair 2·(lane % 4) of row lane / 4.
__device__ inline void load_matrices(unsigned row, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void store_matrices(unsigned row, const unsigned (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(row),
               "r"(from[0]),
               "r"(from[1]),
               "r"(from[2]),
               "r"(from[3])
               : "memory");
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
