#include "norma/kernels/softcap.h"

#include "norma/kernels/parallel.h"
#include "norma/kernels/vec_math.h"

namespace norma::kernels {

void run(Cpu, const SoftcapForward<float>& a) {
  const auto cap = static_cast<float>(a.cap);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    const float* __restrict x = a.x.row(r);
    float* __restrict y = a.y.row(r);
    for (Index c = 0; c < a.x.cols; ++c) y[c] = cap * tanhf(x[c] / cap);
  });
}

void run(Cpu, const SoftcapBackward<float>& a) {
  const auto cap = static_cast<float>(a.cap);
  for_each_row(a.x.rows, a.x.cols, [&](Index r) {
    const float* __restrict x = a.x.row(r);
    const float* __restrict dy = a.dy.row(r);
    float* __restrict dx = a.dx.row(r);
    with_into(a.dx_into, [&](auto add) {
      for (Index c = 0; c < a.x.cols; ++c) {
        const float tanh_x = tanhf(x[c] / cap);
        put<add>(dx[c], dy[c] * (1.0f - tanh_x * tanh_x));
      }
    });
  });
}

}  // namespace norma::kernels
