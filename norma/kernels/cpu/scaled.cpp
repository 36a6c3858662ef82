#include "norma/kernels/scaled.h"

#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const PutScaled<float>& a) {
  const Index cols = a.to.cols;
  with_into(a.into, [&](auto add) {
    for_each_row(a.to.rows, cols, [&](Index r) {
      const float factor = a.shares == nullptr ? *a.factor : *a.factor * a.shares[r];
      const float* __restrict from = a.from.row(r);
      float* __restrict to = a.to.row(r);
      for (Index c = 0; c < cols; ++c) put<add>(to[c], factor * from[c]);
    });
  });
}

}  // namespace norma::kernels
