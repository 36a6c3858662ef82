#include "norma/tensor/arena.h"

#include <algorithm>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "norma/base/error.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

// Chunks double from small to large, so that a check of one op stays cheap and a model needs few.
constexpr std::size_t kFirstChunkBytes = std::size_t{1} << 18;
constexpr std::size_t kLargestChunkBytes = std::size_t{1} << 26;
// A plan only reserves addresses, and asking for each chunk would take most of its time.
constexpr std::size_t kLargestPlannedChunkBytes = std::size_t{1} << 32;
constexpr std::size_t kPlannedBlocks = 16;  // of a large block, in one chunk
constexpr std::size_t kLargeBlockBytes = std::size_t{1} << 38;

// Under AddressSanitizer a block ends in a poisoned line and a free block is poisoned, so an access
// beyond a tensor is caught although tensors share one chunk.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGuardBytes = kAlignment;
// What is only planned is never touched, and neither are the notes about it: an eighth of its size.
void forbid(void* block, std::size_t bytes) {
  if (!planning()) ASAN_POISON_MEMORY_REGION(block, bytes);
}
void permit(void* block, std::size_t bytes) {
  if (!planning()) ASAN_UNPOISON_MEMORY_REGION(block, bytes);
}
#else
constexpr std::size_t kGuardBytes = 0;
void forbid(void*, std::size_t) {}
void permit(void*, std::size_t) {}
#endif

// Libraries choose their kernels by the alignment of what they are given, up to this.
constexpr std::size_t kAlignmentOnGpu = 256;

std::size_t block_bytes(std::size_t bytes, Device device) {
  const std::size_t grain = device.kind == DeviceKind::cuda ? kAlignmentOnGpu : kAlignment;
  return (std::max<std::size_t>(bytes, 1) + grain - 1) / grain * grain + kGuardBytes;
}

}  // namespace

Arena::FreeList& Arena::free_list(std::size_t bytes) {
  const auto at = std::lower_bound(
      free_.begin(), free_.end(), bytes, [](const FreeList& list, std::size_t wanted) {
        return list.bytes < wanted;
      });
  if (at != free_.end() && at->bytes == bytes) return *at;
  return *free_.insert(at, FreeList{bytes, {}});
}

void* Arena::bump(std::size_t bytes) {
  std::size_t chunk = chunk_;
  std::size_t offset = offset_;
  while (chunk < chunks_.size() && offset + bytes > chunks_[chunk].bytes()) {
    ++chunk;
    offset = 0;
  }
  if (chunk == chunks_.size()) {
    const std::size_t regular =
        std::min(kFirstChunkBytes << std::min<std::size_t>(chunks_.size(), 16),
                 planning() ? kLargestPlannedChunkBytes : kLargestChunkBytes);
    const std::size_t wanted =
        planning() && bytes < kLargeBlockBytes ? kPlannedBlocks * bytes : bytes;
    chunks_.emplace_back(std::max(wanted, regular), device_);  // may throw: nothing has changed yet
    used_.push_back(0);
    forbid(chunks_.back().data(), chunks_.back().bytes());
  }
  chunk_ = chunk;
  offset_ = offset + bytes;
  used_[chunk] = std::max(used_[chunk], offset_);
  return chunks_[chunk].data() + offset;
}

void* Arena::allocate(std::size_t bytes) {
  const std::size_t size = block_bytes(bytes, device_);
  std::vector<void*>& blocks = free_list(size).blocks;
  void* block = nullptr;
  if (blocks.empty()) {
    block = bump(size);
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  permit(block, bytes);
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  return block;
}

void Arena::release(void* block, std::size_t bytes) {
  const std::size_t size = block_bytes(bytes, device_);
  forbid(block, size);
  free_list(size).blocks.push_back(block);
  in_use_ -= size;
}

void Arena::reserve(std::size_t bytes) {
  if (!chunks_.empty()) throw Error("an arena must be reserved before it is used.");
  chunks_.emplace_back(bytes, device_);
  used_.push_back(0);
  if (!planning()) forbid(chunks_.back().data(), chunks_.back().bytes());
}

void Arena::reset() {
  for (FreeList& list : free_) list.blocks.clear();
  for (const Buffer& chunk : chunks_) forbid(chunk.data(), chunk.bytes());
  chunk_ = 0;
  offset_ = 0;
  in_use_ = 0;
}

std::size_t Arena::touched() const {
  std::size_t total = 0;
  for (const std::size_t used : used_) total += used;
  return total;
}

std::size_t Arena::capacity() const {
  std::size_t total = 0;
  for (const Buffer& chunk : chunks_) total += chunk.bytes();
  return total;
}

}  // namespace norma
