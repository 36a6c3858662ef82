// What the kernels for the GPU share: the type they compute in, loads and stores of neighbouring
// elements at once, and sums whose order is fixed, so that the same input gives the same bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "norma/base/into.h"
#include "norma/kernels/cuda/instructions.cuh"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

using device::launch;
using device::launch_tiles;
using device::launch_together;

/// What a kernel computes and adds up in. Values of f32 are there to be compared with other
/// devices, good to 1e-6 even where sums cancel, so they are computed in double; beside the eight
/// bits of bf16, float is exact.
template <class T>
using Math = std::conditional_t<std::is_same_v<T, float>, double, float>;

template <class C>
__device__ inline C read(float value) {
  return static_cast<C>(value);
}
template <class C>
__device__ inline C read(Bf16 value) {
  return static_cast<C>(device::load(value));
}
template <class C>
__device__ inline C read(double value) {
  return static_cast<C>(value);
}
template <class C>
__device__ inline void write(float& to, C value) {
  to = static_cast<float>(value);
}
template <class C>
__device__ inline void write(Bf16& to, C value) {
  device::store(to, static_cast<float>(value));
}
template <class C>
__device__ inline void write(double& to, C value) {
  to = static_cast<double>(value);
}

/// Sets or adds.
template <class T, class C>
__device__ inline void put(T& to, C value, Into into) {
  write(to, into == Into::add ? read<C>(to) + value : value);
}

/// Neighbouring elements that are moved at once; `at` is theirs to use.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
/// Elements of one 16-byte access.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ inline Pack<std::remove_const_t<T>, N> load_pack(T* from) {
  return *reinterpret_cast<const Pack<std::remove_const_t<T>, N>*>(from);
}
template <class T, int N>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
  if constexpr (sizeof pack == 16) {
    uint4 words;
    memcpy(&words, &pack, sizeof words);
    store_words(to, words);
  } else {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
  }
}
/// The numbers of a pack in type C.
template <class C, class T, int N>
__device__ inline void unpack(const Pack<T, N>& pack, C (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = read<C>(pack.at[i]);
}
/// The numbers of two bf16 that lie in one register, and two numbers rounded to such a pair; the
/// first is in the lower half.
__device__ inline float low_of(unsigned both) { return __uint_as_float(both << 16); }
__device__ inline float high_of(unsigned both) { return __uint_as_float(both & 0xFFFF0000U); }
__device__ inline unsigned rounded_pair(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}
// Two bf16 to a register: left to itself the compiler gives each its own, and spends twice the
// instructions on it.
template <int N>
__device__ inline void unpack(const Pack<Bf16, N>& pack, float (&to)[N]) requires(N % 2 == 0) {
  unsigned words[N / 2];
  memcpy(words, &pack, sizeof words);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    to[2 * i] = low_of(words[i]);
    to[2 * i + 1] = high_of(words[i]);
  }
}
/// The way back, rounded.
template <class T, class C, int N>
__device__ inline Pack<T, N> pack_of(const C (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (std::is_same_v<T, Bf16> && std::is_same_v<C, float> && N % 2 == 0) {
    __nv_bfloat162 pairs[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
    }
    memcpy(&pack, pairs, sizeof pack);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) write(pack.at[i], values[i]);
  }
  return pack;
}

/// The numbers of N neighbours in type C.
template <int N, class C, class T>
__device__ inline void read_pack(T* from, C (&to)[N]) {
  unpack(load_pack<N>(from), to);
}
template <int N, class C, class T>
__device__ inline void write_pack(T* to, const C (&values)[N]) {
  store_pack(to, pack_of<T>(values));
}
template <int N, class C, class T>
__device__ inline void put_pack(T* to, const C (&values)[N], Into into) {
  C sums[N];
  if (into == Into::add) {
    read_pack(to, sums);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] += values[i];
    write_pack(to, sums);
  } else {
    write_pack(to, values);
  }
}

/// Whether all rows can be taken in packs of N.
template <class T>
bool packs(const Rows<T>& rows, int n) {
  const auto bytes = static_cast<std::uintptr_t>(n) * sizeof(T);
  return rows.cols % n == 0 && rows.stride % n == 0 &&
         reinterpret_cast<std::uintptr_t>(rows.data) % bytes == 0;
}
/// The same for a contiguous span; null pointers never hinder.
template <class T>
bool packs(const T* data, Index count, int n) {
  return count % n == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % (static_cast<std::uintptr_t>(n) * sizeof(T)) == 0;
}

/// f(std::integral_constant<int, N>{}) with packs of 16 bytes of T where `all` says they fit, else
/// one element at a time.
template <class T, class F>
void with_pack(bool all, F&& f) {
  if (all) {
    f(std::integral_constant<int, kPack<T>>{});
  } else {
    f(std::integral_constant<int, 1>{});
  }
}

/// The sum over a group of kLanes neighbours in a warp, given to all of them; kLanes is a power
/// of 2.
template <int kLanes = 32, class C>
__device__ inline C warp_sum(C value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, step, kLanes);
  }
  return value;
}
template <int kLanes = 32, class C>
__device__ inline C warp_max(C value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    const C other = __shfl_xor_sync(0xFFFFFFFFU, value, step, kLanes);
    value = other > value ? other : value;
  }
  return value;
}

/// The sum over a block of kThreads threads, given to all. All threads call it.
template <int kThreads, class C>
__device__ inline C block_sum(C value) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ C parts[kThreads / 32];
  value = warp_sum(value);
  __syncthreads();  // the last call's parts have been read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  C sum = 0;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) sum += parts[i];
  return sum;
}

}  // namespace norma::kernels
