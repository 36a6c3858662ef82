// Words used everywhere: the index type, dtypes and devices as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace norma {

using Index = std::int64_t;

/// Element types as values, so that a tensor's type is decided at run time.
enum class DType : std::uint8_t { f32, f64, bf16, i32 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
      return 8;
    case DType::bf16:
      return 2;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
  }
  return "?";
}

template <class T>
inline constexpr DType kDTypeOf = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::i32;

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int16_t index = 0;
  friend constexpr bool operator==(Device, Device) = default;
};

constexpr std::string_view name_of(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda";
}

}  // namespace norma
