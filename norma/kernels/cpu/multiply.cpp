#include "norma/kernels/multiply.h"

#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const Multiply<float>& a) {
  for_each_row(a.to.rows, a.to.cols, [&](Index r) {
    const float* __restrict x = a.a.row(r);
    const float* __restrict y = a.b.row(r);
    float* __restrict to = a.to.row(r);
    with_into(a.into, [&](auto add) {
      for (Index c = 0; c < a.to.cols; ++c) put<add>(to[c], x[c] * y[c]);
    });
  });
}

}  // namespace norma::kernels
