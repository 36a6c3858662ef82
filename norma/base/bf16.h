// bf16: the upper half of an f32. A type to store in; arithmetic happens in wider ones.
#pragma once

#include <bit>
#include <cstdint>

#include "norma/base/types.h"

namespace norma {

struct Bf16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

template <>
inline constexpr DType kDTypeOf<Bf16> = DType::bf16;

constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// To the nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

template <class T>
struct WideOf {
  using Type = T;
};
template <>
struct WideOf<Bf16> {
  using Type = float;
};
/// What sums, statistics, gains and gradients of parameters are kept in beside values of type T.
template <class T>
using Wide = typename WideOf<T>::Type;

constexpr DType wide(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

}  // namespace norma
