// In place of the page of this name: such copies are done when they are waited for.
#pragma once

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

inline void copy_later(void* to, const void* from, bool there = true) {
  hopper::own_copy([=] {
    if (there) {
      std::memcpy(to, from, sizeof(uint4));
    } else {
      std::memset(to, 0, sizeof(uint4));
    }
  });
}
inline void close_copies() { hopper::close_own_copies(); }
template <int kPending>
void wait_for_copies() {
  hopper::wait_for_own_copies(kPending);
}
inline void wait_for_copies() {
  hopper::close_own_copies();
  hopper::wait_for_own_copies(0);
}

}  // namespace norma::kernels
