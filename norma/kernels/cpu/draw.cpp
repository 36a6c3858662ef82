#include "norma/kernels/draw.h"

namespace norma::kernels {

void run(Cpu, const UniformDraw<float>& a) {
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < a.count; ++i) a.to[i] = static_cast<float>(drawn(a, i));
}
void run(Cpu, const NormalDraw<float>& a) {
#pragma omp parallel for schedule(static)
  for (Index pair = 0; pair < (a.count + 1) / 2; ++pair) {
    draw_pair(a, pair, [&](Index i, double value) { a.to[i] = static_cast<float>(value); });
  }
}

}  // namespace norma::kernels
