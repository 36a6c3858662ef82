// Transcendental functions that vectorize. glibc's libmvec has vector versions of these, but its
// headers offer them to the compiler only under -ffast-math, which we never use; declaring the
// vector variants here lets g++ call them from plain loops. Their error is at most 4 ulp.
// clang (sanitizer builds) takes the scalar functions.
#pragma once

#include <cmath>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define NORMA_VECTOR_VARIANTS __attribute__((simd("notinbranch"), const, nothrow))
extern "C" {
NORMA_VECTOR_VARIANTS float expf(float);
NORMA_VECTOR_VARIANTS float logf(float);
NORMA_VECTOR_VARIANTS float erff(float);
NORMA_VECTOR_VARIANTS float tanhf(float);
NORMA_VECTOR_VARIANTS float sinf(float);
NORMA_VECTOR_VARIANTS float cosf(float);
NORMA_VECTOR_VARIANTS double sin(double);
NORMA_VECTOR_VARIANTS double cos(double);
}
#undef NORMA_VECTOR_VARIANTS
#endif
