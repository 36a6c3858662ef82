// In place of the page of this name: what the host does for the copy engine and its barriers
// (tests/hopper/machine.h), as far as attention needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "norma/kernels/cuda/pack.cuh"

/// Heads of matrices that follow each other, as describe_heads() has them; a matrix, as describe()
/// has it, is one head of one.
struct CUtensorMap {
  norma::Bf16* data = nullptr;
  norma::Index width = 0;
  norma::Index heads = 0;
  norma::Index rows = 0;
  norma::Index count = 0;
  norma::Index stride = 0;
  int box_rows = 64;
  int box_columns = 64;  // or 32

  /// The element, or null beyond the array.
  norma::Bf16* at(int column, int head, int row, int index) const {
    const bool inside = column >= 0 && column < width && head >= 0 && head < heads && row >= 0 &&
                        row < rows && index >= 0 && index < count;
    return inside ? data + (index * rows + row) * stride + head * width + column : nullptr;
  }
};

namespace norma::kernels::tile_copy {

inline void make_barrier(unsigned barrier, int arrivals) {
  hopper::make_barrier(barrier, arrivals);
}
inline void publish_barriers() {}
inline unsigned rank_in_cluster() { return hopper::rank(); }
inline void meet_cluster() { hopper::meet_cluster(); }
inline void arrive(unsigned barrier) { hopper::arrive(barrier); }
template <int kTimes = 1>
void arrive_at(unsigned barrier, unsigned block) {
  for (int i = 0; i < kTimes; ++i) hopper::arrive_at(barrier, block);
}
inline void arrive_expecting(unsigned barrier, unsigned bytes) { hopper::arrive(barrier, bytes); }
template <bool kCluster = false>
bool is_over(unsigned barrier, unsigned phase) {
  return hopper::is_over(barrier, phase);
}

/// Where element (row, column) of a box lies: of squares of 64 by 64 or strips of 64 by 32 below
/// each other, whose chunks of 16 bytes are shuffled by their address.
inline std::byte* of_box(const CUtensorMap* map, unsigned box, int row, int column) {
  const bool strip = map->box_columns == 32;
  if (box % (strip ? 512 : 1024) != 0)
    throw std::runtime_error("a box does not begin where it must");
  const int chunk = (column / 8) ^ (strip ? row / 2 % 4 : row % 8);
  const int at = row * map->box_columns * 2 + chunk * 16 + column % 8 * 2;
  return hopper::shared(box + static_cast<unsigned>(at), 2);
}
template <class Move>
void each_of_box(const CUtensorMap* map, const Move& move) {
  for (int row = 0; row < map->box_rows; ++row) {
    for (int column = 0; column < map->box_columns; ++column) move(row, column);
  }
}
inline unsigned bytes_of_box(const CUtensorMap* map) {
  return static_cast<unsigned>(map->box_rows * map->box_columns) * sizeof(Bf16);
}

/// Keeps the map itself: who asks may have ended when the copy is done.
inline auto bring_box(
    unsigned to, const CUtensorMap* from, int column, int head, int row, int index) {
  return [=, map = *from] {
    each_of_box(&map, [&](int r, int c) {
      const Bf16* there = map.at(column + c, head, row + r, index);
      const Bf16 value = there == nullptr ? Bf16{} : *there;
      std::memcpy(of_box(&map, to, r, c), &value, sizeof value);
    });
  };
}
inline void copy_span(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  hopper::copy([=] { std::memcpy(hopper::shared(to, bytes), from, bytes); }, barrier, bytes);
}
inline void copy_head(unsigned to,
                      const CUtensorMap* from,
                      int column,
                      int head,
                      int row,
                      int index,
                      unsigned barrier) {
  hopper::copy(bring_box(to, from, column, head, row, index), barrier, bytes_of_box(from));
}
inline void copy_box(
    unsigned to, const CUtensorMap* from, int column, int row, int index, unsigned barrier) {
  copy_head(to, from, column, 0, row, index, barrier);
}
inline void copy_box_to_both(
    unsigned to, const CUtensorMap* from, int column, int row, int index, unsigned barrier) {
  hopper::copy_to_both(bring_box(to, from, column, 0, row, index), barrier, bytes_of_box(from));
}
inline void store_head(
    const CUtensorMap* to, int column, int head, int row, int index, unsigned from) {
  hopper::store([=] {
    std::vector<std::pair<Bf16*, Bf16>> all;
    each_of_box(to, [&](int r, int c) {
      Bf16* there = to->at(column + c, head, row + r, index);
      if (there == nullptr) return;
      Bf16 value;
      std::memcpy(&value, of_box(to, from, r, c), sizeof value);
      all.emplace_back(there, value);
    });
    return [all = std::move(all)] {
      for (const auto& [there, value] : all) *there = value;
    };
  });
}
inline void store_box(const CUtensorMap* to, int column, int row, int index, unsigned from) {
  store_head(to, column, 0, row, index, from);
}
template <int kBytes, class Put>
void each_of_span(float* to, unsigned from, const Put& put) {
  hopper::store([=] {
    std::vector<float> values(kBytes / sizeof(float));
    std::memcpy(values.data(), hopper::shared(from, kBytes), kBytes);
    return [=, values = std::move(values)] {
      for (std::size_t i = 0; i < values.size(); ++i) put(to[i], values[i]);
    };
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
inline void wait_until_stored() { hopper::finish_stores(); }

inline void tell(unsigned* told, unsigned value) { *told = value; }
inline bool is_told(const unsigned* told, unsigned value) { return hopper::looked(*told == value); }
inline void pause() {}
/// Kernels that send find no clusters here (has_clusters() in cluster.cuh).
inline void send(unsigned, float4, unsigned, unsigned) { hopper::trap(); }
inline void put_shared(unsigned to, float4 values) {
  std::memcpy(hopper::shared(to, sizeof values), &values, sizeof values);
}

}  // namespace norma::kernels::tile_copy
