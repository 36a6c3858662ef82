#include "norma/kernels/qk_rope.h"

#include <algorithm>
#include <cmath>

namespace norma::kernels {

namespace {

/// The head that starts at column `at` of a row: its factors and how it turns.
template <class T>
struct Head {
  const RopeFactors<T>& f;
  const HeadScaling& scaling;
  const T* gain;
  Index row;
  Index at;

  Index place(Index i) const { return scaling.gain_per_column ? at + i : i; }
  T factor(Index i) const {
    if (gain == nullptr) return 1;
    return static_cast<T>(scaling.gain_offset) + static_cast<T>(scaling.gain_mult) * gain[place(i)];
  }
  template <class Value>
  T turn(bool transposed, Index i, const Value& value) const {
    return turned(f.layout, transposed, f.cosine_of(row), f.sine_of(row), f.pairs, i, value);
  }
};

}  // namespace

template <class T>
void run(Ref, const QkRopeForward<T>& a) {
  const Index size = 2 * a.factors.pairs;
  const Index heads = a.x.cols / size;
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index h = 0; h < heads; ++h) {
      const Head<T> head{a.factors, a.scaling, a.gain, r, h * size};
      const T* x = a.x.row(r) + head.at;
      // v is what the norm sees.
      const auto v = [&](Index i) {
        if (!a.scaling.after_rope) return x[i];
        return head.turn(false, i, [&](Index k) { return x[k]; });
      };
      T sum = 0;
      for (Index i = 0; i < size; ++i) sum += v(i) * v(i);
      T rstd = 1;
      if (a.scaling.norm != HeadNorm::none) {
        rstd =
            1 / std::sqrt(sum * static_cast<T>(a.scaling.weight) + static_cast<T>(a.scaling.eps));
      }
      if (a.scaling.norm == HeadNorm::l2 && sum == 0) rstd = 0;
      a.rstd[r * heads + h] = rstd;
      const auto scaled = [&](Index i) { return v(i) * rstd * head.factor(i); };
      for (Index i = 0; i < size; ++i) {
        a.y(r, head.at + i) = a.scaling.after_rope ? scaled(i) : head.turn(false, i, scaled);
      }
    }
  }
}

template <class T>
void run(Ref, const QkRopeBackward<T>& a) {
  const Index size = 2 * a.factors.pairs;
  const Index heads = a.x.cols / size;
  if (a.dgain != nullptr && a.dgain_into == Into::set) {
    std::fill(a.dgain, a.dgain + (a.scaling.gain_per_column ? a.x.cols : size), T{0});
  }
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index h = 0; h < heads; ++h) {
      const Head<T> head{a.factors, a.scaling, a.gain, r, h * size};
      const T* x = a.x.row(r) + head.at;
      const T* dy = a.dy.row(r) + head.at;
      const T rstd = a.rstd[r * heads + h];
      const auto v = [&](Index i) {
        if (!a.scaling.after_rope) return x[i];
        return head.turn(false, i, [&](Index k) { return x[k]; });
      };
      // The gradient of v·rstd·factor.
      const auto g = [&](Index i) {
        if (a.scaling.after_rope) return dy[i];
        return head.turn(true, i, [&](Index k) { return dy[k]; });
      };
      T dot = 0;
      for (Index i = 0; i < size; ++i) {
        dot += g(i) * head.factor(i) * v(i);
        if (a.dgain != nullptr) {
          a.dgain[head.place(i)] += static_cast<T>(a.scaling.gain_mult) * g(i) * v(i) * rstd;
        }
      }
      if (!a.dx) continue;
      const T along = a.scaling.norm == HeadNorm::none
                          ? T{0}
                          : dot * rstd * rstd * static_cast<T>(a.scaling.weight);
      const auto dv = [&](Index i) { return rstd * (g(i) * head.factor(i) - v(i) * along); };
      for (Index i = 0; i < size; ++i) {
        const T value = a.scaling.after_rope ? head.turn(true, i, dv) : dv(i);
        T& slot = a.dx(r, head.at + i);
        slot = a.dx_into == Into::add ? slot + value : value;
      }
    }
  }
}

template void run(Ref, const QkRopeForward<float>&);
template void run(Ref, const QkRopeForward<double>&);
template void run(Ref, const QkRopeBackward<float>&);
template void run(Ref, const QkRopeBackward<double>&);

}  // namespace norma::kernels
