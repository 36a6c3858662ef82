// In place of the page of this name: what the host does for the copy engine and its barriers
// (tests/hopper/machine.h), as far as attention needs it.
#pragma once

#include <cstdint>
#include <cstring>

#include "norma/kernels/cuda/pack.cuh"

/// Heads of matrices that follow each other, as describe_heads() has them.
struct CUtensorMap {
  norma::Bf16* data = nullptr;
  norma::Index width = 0;
  norma::Index heads = 0;
  norma::Index rows = 0;
  norma::Index count = 0;
  norma::Index stride = 0;

  /// The element, or null beyond the array.
  norma::Bf16* at(int column, int head, int row, int index) const {
    const bool inside = column >= 0 && column < width && head >= 0 && head < heads && row >= 0 &&
                        row < rows && index >= 0 && index < count;
    return inside ? data + (index * rows + row) * stride + head * width + column : nullptr;
  }
};

namespace norma::kernels::tile_copy {

inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(at) - hopper::shared_memory()) +
         hopper::kSharedBase;
}

inline void make_barrier(unsigned barrier, int arrivals) {
  hopper::make_barrier(barrier, arrivals);
}
inline void publish_barriers() {}
inline void arrive(unsigned barrier) { hopper::arrive(barrier); }
inline void arrive_expecting(unsigned barrier, unsigned bytes) { hopper::arrive(barrier, bytes); }
template <bool kCluster = false>
bool is_over(unsigned barrier, unsigned phase) {
  return hopper::is_over(barrier, phase);
}

/// Where element (row, column) of a square of 64 by 64 lies, whose chunks of 16 bytes are shuffled
/// by their address.
inline std::byte* of_square(unsigned square, int row, int column) {
  if (square % 1024 != 0) throw std::runtime_error("a square does not begin at a multiple of 1024");
  const int chunk = (column / 8) ^ (row % 8);
  return hopper::shared(square + static_cast<unsigned>(row * 128 + chunk * 16 + column % 8 * 2), 2);
}
template <class Move>
void each_of_square(const Move& move) {
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < 64; ++column) move(row, column);
  }
}

inline void copy_head(unsigned to,
                      const CUtensorMap* from,
                      int column,
                      int head,
                      int row,
                      int index,
                      unsigned barrier) {
  const auto work = [=] {
    each_of_square([&](int r, int c) {
      const Bf16* there = from->at(column + c, head, row + r, index);
      const Bf16 value = there == nullptr ? Bf16{} : *there;
      std::memcpy(of_square(to, r, c), &value, sizeof value);
    });
  };
  hopper::copy(work, barrier, 64 * 64 * sizeof(Bf16));
}
inline void store_head(
    const CUtensorMap* to, int column, int head, int row, int index, unsigned from) {
  hopper::store([=] {
    each_of_square([&](int r, int c) {
      Bf16* there = to->at(column + c, head, row + r, index);
      if (there != nullptr) std::memcpy(there, of_square(from, r, c), sizeof *there);
    });
  });
}
template <int kBytes, class Put>
void each_of_span(float* to, unsigned from, const Put& put) {
  hopper::store([=] {
    for (unsigned i = 0; i < kBytes / sizeof(float); ++i) {
      float value = 0;
      std::memcpy(&value, hopper::shared(from + 4 * i, sizeof value), sizeof value);
      put(to[i], value);
    }
  });
}
template <int kBytes>
void store_span(float* to, unsigned from) {
  each_of_span<kBytes>(to, from, [](float& there, float value) { there = value; });
}
template <int kBytes>
void add_span(float* to, unsigned from) {
  each_of_span<kBytes>(to, from, [](float& there, float value) { there += value; });
}
inline void show_to_engine() {}
inline void show_memory_to_engine() {}
inline void close_stores() {}
template <int kPending>
void wait_until_read() {
  static_assert(kPending == 0);
  hopper::read_stores();
}
inline void wait_until_stored() { hopper::read_stores(); }

inline void tell(unsigned* told, unsigned value) { *told = value; }
inline bool is_told(const unsigned* told, unsigned value) { return hopper::looked(*told == value); }
inline void pause() {}
inline void put_shared(unsigned to, float4 values) {
  std::memcpy(hopper::shared(to, sizeof values), &values, sizeof values);
}

}  // namespace norma::kernels::tile_copy
