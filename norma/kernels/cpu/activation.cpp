#include "norma/kernels/activation.h"

#include "norma/kernels/cpu/activation_math.h"
#include "norma/kernels/parallel.h"

namespace norma::kernels {

void run(Cpu, const ActivationForward<float>& a) {
  with_activation(a.kind, [&](auto kind) {
    constexpr Activation kKind = decltype(kind)::value;
    for_each_row(a.x.rows, a.x.cols, [&](Index r) {
      const float* __restrict x = a.x.row(r);
      float* __restrict y = a.y.row(r);
      for (Index c = 0; c < a.x.cols; ++c) y[c] = fast_value<kKind>(x[c]);
    });
  });
}

void run(Cpu, const ActivationBackward<float>& a) {
  with_activation(a.kind, [&](auto kind) {
    constexpr Activation kKind = decltype(kind)::value;
    for_each_row(a.x.rows, a.x.cols, [&](Index r) {
      const float* __restrict x = a.x.row(r);
      const float* __restrict dy = a.dy.row(r);
      float* __restrict dx = a.dx.row(r);
      with_into(a.dx_into, [&](auto add) {
        for (Index c = 0; c < a.x.cols; ++c) put<add>(dx[c], dy[c] * fast_slope<kKind>(x[c]));
      });
    });
  });
  if (a.y) run(Cpu{}, ActivationForward<float>{a.x, a.y, a.kind});
}

}  // namespace norma::kernels
