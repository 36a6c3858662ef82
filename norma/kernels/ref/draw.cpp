#include "norma/kernels/draw.h"

namespace norma::kernels {

template <class T>
void run(Ref, const UniformDraw<T>& a) {
  for (Index i = 0; i < a.count; ++i) a.to[i] = static_cast<T>(drawn(a, i));
}
template <class T>
void run(Ref, const NormalDraw<T>& a) {
  for (Index pair = 0; 2 * pair < a.count; ++pair) {
    draw_pair(a, pair, [&](Index i, double value) { a.to[i] = static_cast<T>(value); });
  }
}

template void run(Ref, const UniformDraw<float>& a);
template void run(Ref, const UniformDraw<double>& a);
template void run(Ref, const NormalDraw<float>& a);
template void run(Ref, const NormalDraw<double>& a);

}  // namespace norma::kernels
