// Counts what Norma's own code takes from the heap.
#pragma once

#include "norma/base/types.h"

namespace norma::test {

/// While one of these lives, calls of malloc and its relatives (operator new among them) in any
/// thread are counted, except those that come straight from the OpenMP library, oneDNN or
/// CUDA, which has threads of its own.
class HeapCount {
 public:
  HeapCount();
  ~HeapCount();
  HeapCount(const HeapCount&) = delete;
  HeapCount& operator=(const HeapCount&) = delete;

  Index calls() const;
  /// False under sanitizers, which need malloc for themselves.
  static bool possible();
};

}  // namespace norma::test
