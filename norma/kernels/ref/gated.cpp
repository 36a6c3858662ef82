#include "norma/kernels/gated.h"

#include <algorithm>

#include "norma/kernels/ref/activation_math.h"

namespace norma::kernels {

namespace {

template <class T>
T factor_at(const T* gains, double factor, Index c) {
  return static_cast<T>(factor) * (gains == nullptr ? T{1} : gains[c]);
}

template <class T>
void put_at(const Rows<T>& to, Into into, Index r, Index c, T value) {
  if (!to) return;
  to(r, c) = into == Into::add ? to(r, c) + value : value;
}

}  // namespace

template <class T>
void run(Ref, const GatedForward<T>& a) {
  for (Index r = 0; r < a.u.rows; ++r) {
    for (Index c = 0; c < a.u.cols; ++c) {
      const T gate = factor_at(a.s_v, a.g_factor, c) * a.g(r, c);
      a.y(r, c) = factor_at(a.s_u, a.u_factor, c) * a.u(r, c) * activation_value(a.act, gate);
    }
  }
}

template <class T>
void run(Ref, const GatedBackward<T>& a) {
  const Index cols = a.u.cols;
  if (a.ds_u != nullptr && a.ds_u_into == Into::set) std::fill(a.ds_u, a.ds_u + cols, T{0});
  if (a.ds_v != nullptr && a.ds_v_into == Into::set) std::fill(a.ds_v, a.ds_v + cols, T{0});
  for (Index r = 0; r < a.u.rows; ++r) {
    for (Index c = 0; c < cols; ++c) {
      const T u_scale = factor_at(a.s_u, a.u_factor, c);
      const T g_scale = factor_at(a.s_v, a.g_factor, c);
      const T gate = g_scale * a.g(r, c);
      const T opened = a.dy(r, c) * activation_value(a.act, gate);
      const T dgate = a.dy(r, c) * u_scale * a.u(r, c) * activation_slope(a.act, gate);
      put_at(a.du, a.du_into, r, c, opened * u_scale);
      put_at(a.dg, a.dg_into, r, c, dgate * g_scale);
      if (a.ds_u != nullptr) a.ds_u[c] += opened * a.u(r, c) * static_cast<T>(a.u_factor);
      if (a.ds_v != nullptr) a.ds_v[c] += dgate * a.g(r, c) * static_cast<T>(a.g_factor);
    }
  }
}

template void run(Ref, const GatedForward<float>&);
template void run(Ref, const GatedForward<double>&);
template void run(Ref, const GatedBackward<float>&);
template void run(Ref, const GatedBackward<double>&);

}  // namespace norma::kernels
