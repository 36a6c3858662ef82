// Memory for what lives within one step: activations, their gradients, scratch.
//
// allocate() takes a block of the right size that release() gave back, or the next bytes of a
// chunk. reset() makes everything free at once. The same sequence of calls gives the same
// addresses, so from the second step on nothing grows, and a captured graph can be replayed.
#pragma once

#include <cstddef>
#include <vector>

#include "norma/tensor/buffer.h"

namespace norma {

class Arena {
 public:
  explicit Arena(Device device = {}) : device_(device) {}

  void* allocate(std::size_t bytes);
  /// Gives a block back; `bytes` as it was asked for.
  void release(void* block, std::size_t bytes);
  void reset();
  /// Takes so many bytes in one piece now, before anything was allocated: for a device whose memory
  /// is asked for in few large pieces.
  void reserve(std::size_t bytes);

  Device device() const { return device_; }
  std::size_t capacity() const;  // bytes held from the system
  /// Bytes of those that were ever handed out: what a step really takes, since memory that was
  /// never touched costs nothing.
  std::size_t touched() const;
  std::size_t in_use() const { return in_use_; }
  std::size_t peak() const { return peak_; }  // most bytes in use since the last reset_peak()
  void reset_peak() { peak_ = in_use_; }

 private:
  struct FreeList {
    std::size_t bytes;
    std::vector<void*> blocks;
  };
  FreeList& free_list(std::size_t bytes);
  void* bump(std::size_t bytes);

  Device device_;
  std::vector<Buffer> chunks_;
  std::vector<std::size_t> used_;  // most bytes ever used of each chunk
  std::size_t chunk_ = 0;          // the chunk new blocks come from
  std::size_t offset_ = 0;         // its first free byte
  std::vector<FreeList> free_;     // sorted by size
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace norma
