#include "norma/kernels/embedding.h"

#include <algorithm>

namespace norma::kernels {

template <class T>
void run(Ref, const EmbeddingForward<T>& a) {
  const auto scale = static_cast<T>(a.scale);
  for (Index n = 0; n < a.y.rows; ++n) {
    const Index t = n % a.ids.cols;
    const Index id = a.ids(n / a.ids.cols, t);
    for (Index c = 0; c < a.y.cols; ++c) {
      T value = a.table[id * a.y.cols + c];
      if (a.positions != nullptr) value += a.positions[(a.first_position + t) * a.y.cols + c];
      a.y(n, c) = scale * value;
    }
  }
}

template <class T>
void run(Ref, const EmbeddingBackward<T>& a) {
  if (a.dtable_into == Into::set) {
    std::fill(a.dtable, a.dtable + a.vocabulary * a.dy.cols, T{0});
  }
  for (Index n = 0; n < a.dy.rows; ++n) {
    const Index id = a.ids(n / a.ids.cols, n % a.ids.cols);
    for (Index c = 0; c < a.dy.cols; ++c) {
      a.dtable[id * a.dy.cols + c] += static_cast<T>(a.scale) * a.dy(n, c);
    }
  }
}

template void run(Ref, const EmbeddingForward<float>&);
template void run(Ref, const EmbeddingForward<double>&);
template void run(Ref, const EmbeddingBackward<float>&);
template void run(Ref, const EmbeddingBackward<double>&);

}  // namespace norma::kernels
