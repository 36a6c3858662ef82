#include "norma/kernels/patchify.h"

#include <algorithm>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const PatchifyForward<float>& a) {
  for_each_row(a.patches.rows, a.patches.cols, [&](Index n) {
    a.grid.for_each_line(n, [&](Index row, Index col, Index at) {
      const float* from = a.images.row(row) + col;
      std::copy(from, from + a.grid.patch, a.patches.row(n) + at);
    });
  });
}

void run(Cpu, const PatchifyBackward<float>& a) {
  // Every pixel lies in exactly one patch, so patches can be put back in any order.
  for_each_row(a.dpatches.rows, a.dpatches.cols, [&](Index n) {
    a.grid.for_each_line(n, [&](Index row, Index col, Index at) {
      const float* __restrict from = a.dpatches.row(n) + at;
      float* __restrict to = a.dimages.row(row) + col;
      with_into(a.dimages_into, [&](auto add) {
        for (Index i = 0; i < a.grid.patch; ++i) put<add>(to[i], from[i]);
      });
    });
  });
}

}  // namespace norma::kernels
