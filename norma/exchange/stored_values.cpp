#include "norma/exchange/stored_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::exchange {

namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void put(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

/// f16 and bf16 alike: a sign, an exponent and `digits` bits of fraction, the smallest normal
/// number being 2^least. The value is cut in one rounding, so there is no second one.
std::uint16_t to_short(double value, int digits, int least, std::uint16_t infinite) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinite | 1U << (digits - 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinite);
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), least);
  // A count of the units that numbers of this exponent are multiples of; rounding may carry it into
  // the next exponent, which is what adding it to the bits does too. nearbyint rounds to even.
  const double units = std::nearbyint(std::ldexp(std::abs(value), digits - exponent));
  const double bits = std::ldexp(exponent - least, digits) + units;
  return static_cast<std::uint16_t>(sign | (bits >= infinite ? infinite : static_cast<int>(bits)));
}

}  // namespace

bool holds_weights(const io::StoredType& type) {
  return type.word == "F32" || type.word == "BF16" || type.word == "F16" || type.word == "F64";
}

double stored_value(const io::StoredType& type, const std::byte* at) {
  if (type.word == "F32") return load<float>(at);
  if (type.word == "F64") return load<double>(at);
  const auto bits = load<std::uint16_t>(at);
  if (type.word == "BF16") return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  if (type.word == "F16") return from_half(bits);
  throw Error(say("weights cannot be stored as ", type.word, "."));
}

void store_value(const io::StoredType& type, double value, std::byte* at) {
  if (type.word == "F32") {
    put(static_cast<float>(value), at);
  } else if (type.word == "F64") {
    put(value, at);
  } else if (type.word == "BF16") {
    put(to_short(value, 7, -126, 0x7f80), at);
  } else if (type.word == "F16") {
    put(to_short(value, 10, -14, 0x7c00), at);
  } else {
    throw Error(say("weights cannot be stored as ", type.word, "."));
  }
}

}  // namespace norma::exchange
