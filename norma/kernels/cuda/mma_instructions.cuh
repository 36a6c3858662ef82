// Instructions of the tensor cores of a warp. The tests have a page of this name for a host.
#pragma once

#include "norma/kernels/cuda/instructions.cuh"

namespace norma::kernels::mma {

/// Four matrices of 8 by 8, of which lane i names row i % 8 of matrix i / 8. Of each a lane gets
/// two neighbours in row lane / 4.
__device__ inline void load_matrices(const Bf16* row, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same of the matrices turned.
__device__ inline void load_turned_matrices(const Bf16* row, unsigned (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// c += a·b: 16 rows by 8 columns, 16 deep.
__device__ inline void multiply_add(const unsigned (&a)[4],
                                    unsigned b0,
                                    unsigned b1,
                                    float (&c)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace norma::kernels::mma
