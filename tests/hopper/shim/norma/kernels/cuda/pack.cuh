// In place of the page of this name: what kernels for Hopper need of CUDA, on the host
// (tests/hopper/machine.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/rows.h"
#include "tests/hopper/machine.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): CUDA's names
#define __device__
#define __global__
#define __shared__
#define __grid_constant__
#define __align__(bytes)
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __CUDA_ARCH_FEAT_SM90_ALL 1

namespace norma::device {
inline int multiprocessors() { return 2; }  // so that each has several tiles
}  // namespace norma::device

namespace norma::kernels {

using std::max;
using std::min;

struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float4 __ldcg(const float4* from) { return *from; }
inline int __popc(unsigned bits) { return std::popcount(bits); }

/// threadIdx.x and its like.
template <class Ask>
struct Coordinate {
  struct Value {
    operator unsigned() const { return static_cast<unsigned>(Ask{}()); }  // NOLINT: as CUDA's
  } x;
};
struct AskThread {
  int operator()() const { return hopper::thread(); }
};
struct AskBlock {
  unsigned operator()() const { return hopper::block(); }
};
struct AskBlocks {
  unsigned operator()() const { return hopper::blocks(); }
};
inline constexpr Coordinate<AskThread> threadIdx{};
inline constexpr Coordinate<AskBlock> blockIdx{};
inline constexpr Coordinate<AskBlocks> gridDim{};

inline void __syncthreads() { hopper::meet_block(); }
inline int __syncthreads_or(int mine) { return hopper::meet_block_or(mine != 0) ? 1 : 0; }
inline void __syncwarp() { hopper::exchange({}); }

/// What a lane of the warp has.
template <class T>
T of_lane(const hopper::OfLanes& all, unsigned lane) {
  static_assert(sizeof(T) == sizeof(unsigned));
  T value;
  std::memcpy(&value, &all[lane].at[0], sizeof value);
  return value;
}
template <class T>
const hopper::OfLanes& exchange_one(T mine) {
  hopper::Words words{};
  std::memcpy(&words.at[0], &mine, sizeof mine);
  return hopper::exchange(words);
}
template <class T>
T __shfl_sync(unsigned, T mine, int lane) {
  return of_lane<T>(exchange_one(mine), static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T mine, int other) {
  const auto lane = static_cast<unsigned>(hopper::thread() % 32 ^ other);
  return of_lane<T>(exchange_one(mine), lane);
}
inline bool __all_sync(unsigned, bool mine) {
  const hopper::OfLanes& all = exchange_one(mine ? 1U : 0U);
  return std::all_of(
      std::begin(all), std::end(all), [](const hopper::Words& lane) { return lane.at[0] != 0; });
}
inline bool __any_sync(unsigned all, bool mine) { return !__all_sync(all, !mine); }
inline unsigned __ballot_sync(unsigned, bool mine) {
  const hopper::OfLanes& all = exchange_one(mine ? 1U : 0U);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= all[lane].at[0] << lane;
  return bits;
}

/// Over a group of kLanes neighbours, in the order of the page of this name.
template <int kLanes, class C, class Join>
C over_lanes(C value, const Join& join) {
  const auto lane = static_cast<unsigned>(hopper::thread() % 32);
  for (unsigned step = kLanes / 2; step > 0; step /= 2) {
    value = join(value, of_lane<C>(exchange_one(value), lane ^ step));
  }
  return value;
}
template <int kLanes = 32, class C>
C warp_sum(C value) {
  return over_lanes<kLanes>(value, [](C one, C other) { return one + other; });
}
template <int kLanes = 32, class C>
C warp_max(C value) {
  return over_lanes<kLanes>(value, [](C one, C other) { return other > one ? other : one; });
}

inline float __expf(float x) { return std::exp(x); }
inline float __uint_as_float(unsigned bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __saturatef(float x) { return x > 0 ? min(x, 1.0F) : 0.0F; }  // NaN: 0
inline float __fmul_rn(float x, float y) {
  const volatile float rounded = x * y;  // no part of a fused one
  return rounded;
}
inline int atomicMax(int* there, int value) {
  const int before = *there;
  *there = max(before, value);
  return before;
}
inline float low_of(unsigned both) { return __uint_as_float(both << 16); }
inline float high_of(unsigned both) { return __uint_as_float(both & 0xFFFF0000U); }
inline unsigned rounded_pair(float low, float high) {
  return static_cast<unsigned>(to_bf16(low).bits) | static_cast<unsigned>(to_bf16(high).bits) << 16;
}

template <class C>
C read(float value) {
  return static_cast<C>(value);
}
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));
template <class T>
bool packs(const Rows<T>& rows, int n) {
  return rows.cols % n == 0 && rows.stride % n == 0;
}
template <class T, int kCount>
struct Pack {
  T at[kCount];
};
template <int kCount>
Pack<Bf16, kCount> load_pack(const Bf16* from) {
  Pack<Bf16, kCount> pack;
  std::copy_n(from, kCount, pack.at);
  return pack;
}
template <int kCount>
void store_pack(Bf16* to, const Pack<Bf16, kCount>& pack) {
  std::copy_n(pack.at, kCount, to);
}
template <int kCount>
void unpack(const Pack<Bf16, kCount>& pack, float (&to)[kCount]) {
  std::transform(pack.at, pack.at + kCount, to, [](Bf16 one) { return to_float(one); });
}
template <int kCount>
void write_pack(Bf16* to, const float (&values)[kCount]) {
  std::transform(values, values + kCount, to, to_bf16);
}
template <int kCount>
void put_pack(Bf16* to, const float (&values)[kCount], Into into) {
  for (int i = 0; i < kCount; ++i) {
    to[i] = to_bf16(into == Into::add ? to_float(to[i]) + values[i] : values[i]);
  }
}

}  // namespace norma::kernels
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
