#include "norma/kernels/patchify.h"

namespace norma::kernels {

template <class T>
void run(Ref, const PatchifyForward<T>& a) {
  for (Index n = 0; n < a.patches.rows; ++n) {
    a.grid.for_each_line(n, [&](Index row, Index col, Index at) {
      for (Index i = 0; i < a.grid.patch; ++i) a.patches(n, at + i) = a.images(row, col + i);
    });
  }
}

template <class T>
void run(Ref, const PatchifyBackward<T>& a) {
  for (Index n = 0; n < a.dpatches.rows; ++n) {
    a.grid.for_each_line(n, [&](Index row, Index col, Index at) {
      for (Index i = 0; i < a.grid.patch; ++i) {
        T& slot = a.dimages(row, col + i);
        slot = a.dimages_into == Into::add ? slot + a.dpatches(n, at + i) : a.dpatches(n, at + i);
      }
    });
  }
}

template void run(Ref, const PatchifyForward<float>&);
template void run(Ref, const PatchifyForward<double>&);
template void run(Ref, const PatchifyBackward<float>&);
template void run(Ref, const PatchifyBackward<double>&);

}  // namespace norma::kernels
