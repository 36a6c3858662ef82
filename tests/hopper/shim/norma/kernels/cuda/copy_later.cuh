// In place of the page of this name: such copies are stores of the machine, which are read when
// they are waited for.
#pragma once

#include "norma/kernels/cuda/pack.cuh"

namespace norma::kernels {

inline void copy_later(void* to, const void* from, bool there = true) {
  hopper::later([=] {
    if (there) {
      std::memcpy(to, from, sizeof(uint4));
    } else {
      std::memset(to, 0, sizeof(uint4));
    }
  });
}
inline void close_copies() { hopper::close_later(); }
template <int kPending>
void wait_for_copies() {
  hopper::wait_for_later(kPending);
}
inline void wait_for_copies() {
  hopper::close_later();
  hopper::wait_for_later(0);
}

}  // namespace norma::kernels
