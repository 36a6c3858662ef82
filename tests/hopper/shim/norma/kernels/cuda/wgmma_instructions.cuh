// In place of the page of this name: products of a warpgroup as the host does them
// (tests/hopper/machine.h), as far as attention needs them.
#pragma once

#include <cstdint>
#include <cstring>

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels::wgmma {

inline constexpr int kWarpgroup = 128;

inline void begin() {}
inline void commit() { hopper::close_products(); }
template <int kPending>
void wait() {
  hopper::wait_for_products(kPending);
}
template <int kCount>
void arrived(float (&)[kCount]) {}
template <int kCount>
void used(unsigned (&)[kCount][4]) {}

/// What a descriptor says of an operand in shared memory; see wgmma.cuh.
struct Operand {
  unsigned address, leading, stride;
  unsigned line;  // bytes that are shuffled among each other
  explicit Operand(std::uint64_t descriptor)
      : address(static_cast<unsigned>(descriptor & 0x3FFF) * 16),
        leading(static_cast<unsigned>(descriptor >> 16 & 0x3FFF) * 16),
        stride(static_cast<unsigned>(descriptor >> 32 & 0x3FFF) * 16),
        line(descriptor >> 62 == 2 ? 64 : 128) {
    if (descriptor >> 62 == 3 || descriptor >> 62 == 0)
      throw std::runtime_error("only swizzles of 128 and of 64 bytes are known here");
  }
  /// Of a row, or turned of a column, at a depth of up to 16.
  float at(int place, int depth, bool turned) const {
    const int across = turned ? depth : place;  // which line
    const int along = turned ? place : depth;   // where in it
    unsigned at = address + static_cast<unsigned>(across / 8) * stride +
                  static_cast<unsigned>(across % 8) * line +
                  static_cast<unsigned>(along / 64) * leading +
                  static_cast<unsigned>(along % 64) * 2;
    at ^= (at >> 7 & (line / 16 - 1)) << 4;
    Bf16 value;
    std::memcpy(&value, hopper::shared(at, sizeof value), sizeof value);
    return to_float(value);
  }
};

inline int row_in_warpgroup(int r) {
  return hopper::thread() % kWarpgroup / 32 * 16 + hopper::thread() % 32 / 4 + 8 * r;
}
/// d (+)= left·right, with left(r, depth) of this thread's two rows.
template <int kCount, class Left>
void add_up(float (&d)[kCount], const Left& left, const Operand& right, bool turned, bool add) {
  for (int i = 0; i < kCount; ++i) {
    const int column = 8 * (i / 4) + 2 * (hopper::thread() % 4) + i % 2;
    float sum = add ? d[i] : 0;
    for (int k = 0; k < 16; ++k) sum += left(i / 2 % 2, k) * right.at(column, k, turned);
    d[i] = sum;
  }
}
template <bool kTurned, bool kLeftTurned = false, int kCount>
void queue(float (&d)[kCount], std::uint64_t a, std::uint64_t b, bool add) {
  hopper::product([&d, a, b, add] {
    const Operand rows(a);
    const auto left = [&](int r, int k) { return rows.at(row_in_warpgroup(r), k, kLeftTurned); };
    add_up(d, left, Operand(b), kTurned, add);
  });
}
template <bool kTurned, int kCount>
void queue(float (&d)[kCount], const unsigned (&a)[4], std::uint64_t b, bool add) {
  hopper::product([&d, &a, b, add] {
    hopper::Words mine{};
    std::memcpy(mine.at, a, sizeof mine.at);
    hopper::OfLanes all;
    std::memcpy(all, hopper::exchange(mine), sizeof all);
    const int quad = hopper::thread() % 32 / 4 * 4;
    const auto left = [&](int r, int k) {
      return half_of(all[quad + k % 8 / 2].at[2 * (k / 8) + r], k % 2);
    };
    add_up(d, left, Operand(b), kTurned, add);
  });
}
template <bool kTurned, int kCount, class Left>
void multiply(float (&d)[kCount], const Left& a, std::uint64_t b) {
  queue<kTurned>(d, a, b, false);
}
template <bool kTurned, int kCount, class Left>
void multiply_add(float (&d)[kCount], const Left& a, std::uint64_t b) {
  queue<kTurned>(d, a, b, true);
}

template <bool kTurned, int kCount, class Left>
void multiply(float (&d)[kCount], const Left& a, std::uint64_t b, int add) {
  queue<kTurned>(d, a, b, add != 0);
}
template <bool kTurned, bool kLeftTurned, int kCount>
void multiply(float (&d)[kCount], std::uint64_t a, std::uint64_t b, int add) {
  queue<kTurned, kLeftTurned>(d, a, b, add != 0);
}
inline void multiply_turned(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  queue<true, true>(d, a, b, false);
}
inline void multiply_add_turned(float (&d)[32], std::uint64_t a, std::uint64_t b) {
  queue<true, true>(d, a, b, true);
}

inline void load_matrices(unsigned row, unsigned (&to)[4]) {
  const hopper::OfLanes& all = hopper::exchange_one(row);
  const auto lane = static_cast<unsigned>(hopper::thread() % 32);
  for (unsigned m = 0; m < 4; ++m) {
    const unsigned from = hopper::of_lane<unsigned>(all, 8 * m + lane / 4) + lane % 4 * 4;
    std::memcpy(&to[m], hopper::shared(from, 4), 4);
  }
}
inline void store_matrices(unsigned row, const unsigned (&from)[4]) {
  const hopper::OfLanes& all = hopper::exchange_one(row);
  const auto lane = static_cast<unsigned>(hopper::thread() % 32);
  for (unsigned m = 0; m < 4; ++m) {
    const unsigned to = hopper::of_lane<unsigned>(all, 8 * m + lane / 4) + lane % 4 * 4;
    std::memcpy(hopper::shared(to, 4), &from[m], 4);
  }
}

inline void meet(int warpgroup) { hopper::meet(warpgroup + 1, kWarpgroup); }
template <int kRegisters>
void fewer_registers() {}
template <int kRegisters>
void more_registers() {}

}  // namespace norma::kernels::wgmma
