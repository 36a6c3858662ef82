// Host memory for the gradient rules of a tape: closures are placed one after another and dropped
// all at once, so a step allocates nothing once the chunks exist. Only trivially destructible
// closures go in; they hold handles, views and numbers.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace norma {

class ClosureArena {
 public:
  struct Mark {
    std::size_t chunk = 0;
    std::size_t offset = 0;
  };

  template <class F>
  F* place(F closure) {
    static_assert(std::is_trivially_destructible_v<F>,
                  "a gradient rule may hold handles, views and numbers, but own nothing");
    return new (allocate(sizeof(F), alignof(F))) F(std::move(closure));
  }
  Mark mark() const { return at_; }
  void rewind(Mark mark) { at_ = mark; }

 private:
  static constexpr std::size_t kChunkBytes = 64 << 10;

  void* allocate(std::size_t bytes, std::size_t alignment) {
    std::size_t offset = (at_.offset + alignment - 1) / alignment * alignment;
    if (chunks_.empty() || offset + bytes > kChunkBytes) {
      if (!chunks_.empty()) ++at_.chunk;
      if (at_.chunk == chunks_.size()) {
        chunks_.push_back(std::make_unique<std::byte[]>(kChunkBytes));
      }
      offset = 0;
    }
    at_.offset = offset + bytes;
    return chunks_[at_.chunk].get() + offset;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  Mark at_;
};

}  // namespace norma
