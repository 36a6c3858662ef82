#include "norma/kernels/rope.h"

namespace norma::kernels {

template <class T>
void run(Ref, const Rope<T>& a) {
  const RopeFactors<T>& f = a.factors;
  const Index head = 2 * f.pairs;
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T* x = a.x.row(r) + c / head * head;
      const T value = turned(
          f.layout, a.transposed, f.cosine_of(r), f.sine_of(r), f.pairs, c % head, [x](Index i) {
            return x[i];
          });
      T& slot = a.y(r, c);
      slot = a.into == Into::add ? slot + value : value;
    }
  }
}

template void run(Ref, const Rope<float>&);
template void run(Ref, const Rope<double>&);

}  // namespace norma::kernels
