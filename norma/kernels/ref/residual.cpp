#include "norma/kernels/residual.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

template <class T>
struct Mix {
  T alpha;
  T nu;      // (α² + (1−α)²)^(−1/2)
  T dnu;     // dν/dα
  T dalpha;  // dα/dα_raw
};

template <class T>
Mix<T> mix_of(T alpha_raw, double mult) {
  const T product = static_cast<T>(mult) * alpha_raw;
  const T alpha = std::abs(product);
  const T nu = 1 / std::sqrt(alpha * alpha + (1 - alpha) * (1 - alpha));
  return {.alpha = alpha,
          .nu = nu,
          .dnu = nu * nu * nu * (1 - 2 * alpha),
          .dalpha = product < 0 ? -static_cast<T>(mult) : static_cast<T>(mult)};
}

template <class T>
void put_at(const Rows<T>& to, Into into, Index r, Index c, T value) {
  if (!to) return;
  to(r, c) = into == Into::add ? to(r, c) + value : value;
}

}  // namespace

template <class T>
void run(Ref, const ResidualForward<T>& a) {
  const auto scale = static_cast<T>(a.scale);
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const T factor = a.lambda == nullptr ? scale : scale * a.lambda[c];
      a.y(r, c) = factor * a.x(r, c) + a.b(r, c);
    }
  }
}

template <class T>
void run(Ref, const AlerpForward<T>& a) {
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      const Mix<T> mix = mix_of(a.alpha_raw[a.alphas == 1 ? 0 : c], a.mult);
      a.y(r, c) = mix.nu * (a.x(r, c) + mix.alpha * (a.b(r, c) - a.x(r, c)));
    }
  }
}

template <class T>
void run(Ref, const AlerpBackward<T>& a) {
  if (a.dalpha != nullptr && a.dalpha_into == Into::set) {
    std::fill(a.dalpha, a.dalpha + a.alphas, T{0});
  }
  for (Index r = 0; r < a.dy.rows; ++r) {
    for (Index c = 0; c < a.dy.cols; ++c) {
      const Index place = a.alphas == 1 ? 0 : c;
      const Mix<T> mix = mix_of(a.alpha_raw[place], a.mult);
      const T dy = a.dy(r, c);
      put_at(a.dx, a.dx_into, r, c, dy * mix.nu * (1 - mix.alpha));
      put_at(a.db, a.db_into, r, c, dy * mix.nu * mix.alpha);
      if (a.dalpha == nullptr) continue;
      const T step = a.b(r, c) - a.x(r, c);
      const T slope = mix.dnu * (a.x(r, c) + mix.alpha * step) + mix.nu * step;
      a.dalpha[place] += dy * slope * mix.dalpha;
    }
  }
}

template void run(Ref, const ResidualForward<float>&);
template void run(Ref, const ResidualForward<double>&);
template void run(Ref, const AlerpForward<float>&);
template void run(Ref, const AlerpForward<double>&);
template void run(Ref, const AlerpBackward<float>&);
template void run(Ref, const AlerpBackward<double>&);

}  // namespace norma::kernels
