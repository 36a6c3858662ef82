// In place of CUDA's page of this name.
#pragma once

#include "norma/base/bf16.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): CUDA's names
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {norma::to_bf16(value).bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
