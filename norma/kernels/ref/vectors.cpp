#include "norma/kernels/vectors.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

/// One vector of a matrix, read and written in double.
template <class T>
class Vector {
 public:
  Vector(T* matrix, const VectorLayout& layout, Index k)
      : data_(matrix + (layout.columns ? k : k * layout.cols)),
        stride_(layout.columns ? layout.cols : 1),
        length_(layout.length()) {}
  Index length() const { return length_; }
  double operator[](Index i) const { return static_cast<double>(data_[i * stride_]); }
  void set(Index i, double value) const { data_[i * stride_] = static_cast<T>(value); }

 private:
  T* data_;
  Index stride_;
  Index length_;
};

template <class A, class B>
double dot(const A& a, const B& b) {
  double sum = 0;
  for (Index i = 0; i < a.length(); ++i) sum += a[i] * b[i];
  return sum;
}

template <class A>
double norm(const A& a) {
  return std::sqrt(dot(a, a));
}

template <class A>
void scale(const A& a, double factor) {
  for (Index i = 0; i < a.length(); ++i) a.set(i, a[i] * factor);
}

template <class A>
void normalize(const A& a) {
  const double length = norm(a);
  if (length > 0) scale(a, 1 / length);
}

template <class T>
void sphere_step(const SphereAdam<T>& a, Index k) {
  const SphereRule& rule = *a.rule;
  const double scaled = rule.grad_scale * factor_at(a.clip);
  const Vector<T> w(a.w, a.layout, k);
  const Vector<const T> g(a.g, a.layout, k);
  const Vector<T> m(a.m, a.layout, k);
  if (a.lazy && dot(g, g) == 0) return;
  normalize(w);
  const double along = scaled * dot(w, g);
  double squares = 0;
  for (Index i = 0; i < w.length(); ++i) {
    const double r = scaled * g[i] - w[i] * along;
    squares += r * r;
    m.set(i, rule.beta1 * m[i] + (1 - rule.beta1) * r);
  }
  const double v = rule.beta2 * static_cast<double>(a.v[k]) + (1 - rule.beta2) * squares;
  a.v[k] = static_cast<T>(v);
  const auto t = static_cast<double>(rule.t);
  const double divisor =
      (1 - std::pow(rule.beta1, t)) * (std::sqrt(v / (1 - std::pow(rule.beta2, t))) + rule.eps);
  const double m_length = norm(m);
  const double tangent = rule.lr * m_length / divisor;  // lr·|δ|
  const double angle = a.geodesic ? tangent : std::atan(tangent);
  for (Index i = 0; i < w.length(); ++i) {
    const double before = w[i];
    const double towards = m_length == 0 ? 0 : m[i] / m_length;  // δ/|δ|
    w.set(i,
          a.geodesic ? std::cos(angle) * before - std::sin(angle) * towards
                     : before - tangent * towards);
    // m points against the way of w, so it is the tangent of the geodesic, reversed.
    if (a.parallel) {
      m.set(i, m_length * (std::cos(angle) * towards + std::sin(angle) * before));
    }
  }
  normalize(w);
  const double rest = dot(w, m);
  for (Index i = 0; i < w.length(); ++i) m.set(i, m[i] - w[i] * rest);
}

}  // namespace

template <class T>
void run(Ref, const KeepVectors<T>& a) {
  if (a.keep == Keep::nothing) return;
  const VectorLayout layout{a.rows, a.cols, keeps_columns(a.keep)};
  for (Index k = 0; k < layout.vectors(); ++k) {
    const Vector<T> w(a.w, layout, k);
    if (!keeps_short(a.keep) || norm(w) > 1) normalize(w);
  }
}

template <class T>
void run(Ref, const TangentProject<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const Vector<const T> w(a.w, a.layout, k);
    const Vector<T> g(a.g, a.layout, k);
    const double squares = dot(w, w);
    if (squares == 0) continue;
    const double along = dot(w, g) / squares;
    for (Index i = 0; i < w.length(); ++i) g.set(i, g[i] - along * w[i]);
  }
}

template <class T>
void run(Ref, const AngularCap<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const Vector<const T> old(a.before, a.layout, k);
    const Vector<T> w(a.w, a.layout, k);
    const double along = dot(old, w);
    double squares = 0;
    for (Index i = 0; i < w.length(); ++i) {
      const double t = w[i] - along * old[i];
      squares += t * t;
    }
    const double tangent = std::sqrt(squares);
    if (std::atan2(tangent, along) > a.cap) {
      for (Index i = 0; i < w.length(); ++i) {
        const double t = w[i] - along * old[i];
        w.set(i, std::cos(a.cap) * old[i] + std::sin(a.cap) * t / tangent);
      }
    }
    normalize(w);
  }
}

template <class T>
void run(Ref, const SphereAdam<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) sphere_step(a, k);
}

template <class T>
void run(Ref, const NormalizeDirection<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const Vector<T> o(a.o, a.layout, k);
    const double mean = dot(o, o) / static_cast<double>(o.length());
    const double nu = a.beta2 * static_cast<double>(a.nu[k]) + (1 - a.beta2) * mean;
    a.nu[k] = static_cast<T>(nu);
    scale(o, 1 / std::sqrt(std::max(nu, 1e-10)));
  }
}

template <class T>
void run(Ref, const AdaptiveClip<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const Vector<T> g(a.g, a.layout, k);
    const double bound = a.clip * std::max(norm(Vector<const T>(a.w, a.layout, k)), 1e-3);
    const double length = norm(g);
    a.clipped[k] = length > bound ? T{1} : T{0};
    if (length > bound) scale(g, bound / length);
  }
}

template <class T>
void run(Ref, const VectorAngles<T>& a) {
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const Vector<const T> before(a.before, a.layout, k);
    const Vector<const T> after(a.after, a.layout, k);
    const double from = norm(before);
    const double to = norm(after);
    a.angles[k] = 0;
    if (from == 0 || to == 0) continue;
    double squares = 0;
    for (Index i = 0; i < before.length(); ++i) {
      const double apart = before[i] / from - after[i] / to;
      squares += apart * apart;
    }
    a.angles[k] = 2 * std::asin(std::min(1.0, std::sqrt(squares) / 2));
  }
}

template <class T>
void run(Ref, const UnitError<T>& a) {
  *a.worst = 0;
  for (Index k = 0; k < a.layout.vectors(); ++k) {
    const double error = std::abs(norm(Vector<const T>(a.w, a.layout, k)) - 1);
    // NaN is the worst of all and stays.
    if (!(error <= *a.worst) && !std::isnan(*a.worst)) *a.worst = error;
  }
}

#define NORMA_VECTORS(Args)                   \
  template void run(Ref, const Args<float>&); \
  template void run(Ref, const Args<double>&)
NORMA_VECTORS(KeepVectors);
NORMA_VECTORS(TangentProject);
NORMA_VECTORS(AngularCap);
NORMA_VECTORS(SphereAdam);
NORMA_VECTORS(NormalizeDirection);
NORMA_VECTORS(AdaptiveClip);
NORMA_VECTORS(VectorAngles);
NORMA_VECTORS(UnitError);
#undef NORMA_VECTORS

}  // namespace norma::kernels
