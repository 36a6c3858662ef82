// Counter-based random numbers (Philox 4x32-10): a value is a pure function of a key and a
// position, so the bits do not depend on thread count, on the order of evaluation or on whether a
// block is recomputed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace norma {

/// Names one stream of random numbers: the run's seed and who draws (step, layer, site).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};

using RandomBlock = std::array<std::uint32_t, 4>;

/// The block of four words at `position` of a stream.
constexpr RandomBlock random_block(RandomKey key, std::uint64_t position) {
  constexpr std::uint64_t kMul0 = 0xD2511F53U;
  constexpr std::uint64_t kMul1 = 0xCD9E8D57U;
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(key.seed >> 32);
  RandomBlock c = {static_cast<std::uint32_t>(position),
                   static_cast<std::uint32_t>(position >> 32),
                   static_cast<std::uint32_t>(key.stream),
                   static_cast<std::uint32_t>(key.stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMul0 * c[0];
    const std::uint64_t p1 = kMul1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0,
         static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

/// Word `index` of a stream.
constexpr std::uint32_t random_word(RandomKey key, std::uint64_t index) {
  return random_block(key, index / 4)[index % 4];
}

/// Uniform in [0, 1) with 24 bits, exact in f32.
constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

/// Two independent standard normals from one block (Box-Muller in double; never infinite). A
/// template, so that kernels for the GPU can call it too.
template <class Real = double>
constexpr std::array<Real, 2> normal_pair(RandomKey key, std::uint64_t position) {
  constexpr Real kUnit = 1.0 / 4294967296.0;
  const RandomBlock block = random_block(key, position);
  const Real radius = std::sqrt(-2.0 * std::log((static_cast<Real>(block[0]) + 0.5) * kUnit));
  const Real angle = 6.283185307179586 * (static_cast<Real>(block[1]) + 0.5) * kUnit;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// The standard normal at `index` of a stream.
template <class Real = double>
constexpr Real normal_at(RandomKey key, std::uint64_t index) {
  return normal_pair<Real>(key, index / 2)[index % 2];
}

}  // namespace norma
