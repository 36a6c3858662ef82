#include "norma/kernels/batch_norm.h"

#include <cmath>

namespace norma::kernels {

namespace {

bool valid(const std::int32_t* lengths, Index b, Index t) {
  return lengths == nullptr || t < lengths[b];
}

/// Whether position t counts in a set of statistics of this kind.
bool member(BatchStatistics statistics, Index set, Index t) {
  if (statistics == BatchStatistics::position) return t == set;
  if (statistics == BatchStatistics::prefix) return t <= set;
  return true;
}

/// f(row, t) for every valid row whose position counts in the set.
template <class F>
void for_members(const BatchNormShape& s,
                 const std::int32_t* lengths,
                 BatchStatistics statistics,
                 Index set,
                 F&& f) {
  for (Index b = 0; b < s.batch; ++b) {
    for (Index t = 0; t < s.positions; ++t) {
      if (valid(lengths, b, t) && member(statistics, set, t)) f(b * s.positions + t, t);
    }
  }
}

template <class T>
struct Moments {
  T count = 0;
  T mean = 0;
  T var = 0;  // biased
};

template <class T>
Moments<T> moments(const BatchNormForward<T>& a, BatchStatistics statistics, Index set, Index c) {
  Moments<T> m;
  for_members(a.shape, a.lengths, statistics, set, [&](Index r, Index) {
    m.count += 1;
    m.mean += a.x(r, c);
  });
  if (m.count == 0) return m;
  m.mean /= m.count;
  for_members(a.shape, a.lengths, statistics, set, [&](Index r, Index) {
    m.var += (a.x(r, c) - m.mean) * (a.x(r, c) - m.mean);
  });
  m.var /= m.count;
  return m;
}

/// running ← (1 − momentum)·running + momentum·batch, with the unbiased variance.
template <class T>
void update(const BatchNormForward<T>& a, Index c) {
  const bool by_position = a.shape.statistics == BatchStatistics::position;
  const auto kind = by_position ? BatchStatistics::position : BatchStatistics::all;
  const auto pace = static_cast<T>(a.momentum);
  for (Index set = 0; set < (by_position ? a.shape.positions : 1); ++set) {
    const Moments<T> m = moments(a, kind, set, c);
    T& mean = a.running_mean[set * a.x.cols + c];
    T& var = a.running_var[set * a.x.cols + c];
    if (m.count > 0) mean += pace * (m.mean - mean);
    if (m.count > 1) var += pace * (m.var * m.count / (m.count - 1) - var);
  }
}

}  // namespace

template <class T>
void run(Ref, const BatchNormForward<T>& a) {
  const BatchNormShape& s = a.shape;
  for (Index c = 0; c < a.x.cols; ++c) {
    for (Index set = 0; set < s.sets; ++set) {
      const Index at = set * a.x.cols + c;
      const Moments<T> m = s.constant ? Moments<T>{1, a.running_mean[at], a.running_var[at]}
                                      : moments(a, s.statistics, set, c);
      a.mean[at] = m.mean;
      a.shift[at] = 0;
      a.rstd[at] = 1 / std::sqrt(m.var + static_cast<T>(a.eps));
    }
    const T gain = a.gain == nullptr ? T{1} : a.gain[c];
    const T bias = a.bias == nullptr ? T{0} : a.bias[c];
    for (Index b = 0; b < s.batch; ++b) {
      for (Index t = 0; t < s.positions; ++t) {
        const Index r = b * s.positions + t;
        const Index at = s.set_of(t) * a.x.cols + c;
        const T xhat = (a.x(r, c) - a.mean[at]) * a.rstd[at];
        a.y(r, c) = valid(a.lengths, b, t) ? gain * xhat + bias : T{0};
      }
    }
    if (a.update) update(a, c);
  }
}

template <class T>
void run(Ref, const BatchNormBackward<T>& a) {
  const BatchNormShape& s = a.shape;
  for (Index c = 0; c < a.x.cols; ++c) {
    const T gain = a.gain == nullptr ? T{1} : a.gain[c];
    const auto xhat = [&](Index r, Index set) {
      const Index at = set * a.x.cols + c;
      return ((a.x(r, c) - a.mean[at]) - a.shift[at]) * a.rstd[at];
    };
    T dgain = 0;
    T dbias = 0;
    // The element itself.
    for (Index b = 0; b < s.batch; ++b) {
      for (Index t = 0; t < s.positions; ++t) {
        const Index r = b * s.positions + t;
        const bool here = valid(a.lengths, b, t);
        if (here) {
          dgain += a.dy(r, c) * xhat(r, s.set_of(t));
          dbias += a.dy(r, c);
        }
        if (!a.dx) continue;
        const T value = here ? gain * a.rstd[s.set_of(t) * a.x.cols + c] * a.dy(r, c) : T{0};
        T& slot = a.dx(r, c);
        slot = a.dx_into == Into::add ? slot + value : value;
      }
    }
    if (a.dgain != nullptr) {
      a.dgain[c] = a.dgain_into == Into::add ? a.dgain[c] + dgain : dgain;
    }
    if (a.dbias != nullptr) {
      a.dbias[c] = a.dbias_into == Into::add ? a.dbias[c] + dbias : dbias;
    }
    if (!a.dx || s.constant) continue;
    // Its part in the mean and variance of every set it counts in.
    for (Index set = 0; set < s.sets; ++set) {
      T count = 0;
      T sum = 0;  // Σ dy and Σ dy·x̂ over the elements that this set normalizes
      T dot = 0;
      for_members(s, a.lengths, s.statistics, set, [&](Index r, Index t) {
        count += 1;
        if (s.set_of(t) != set) return;
        sum += a.dy(r, c);
        dot += a.dy(r, c) * xhat(r, set);
      });
      const T outer = gain * a.rstd[set * a.x.cols + c];
      for_members(s, a.lengths, s.statistics, set, [&](Index r, Index) {
        a.dx(r, c) -= outer * (sum + xhat(r, set) * dot) / count;
      });
    }
  }
}

template void run(Ref, const BatchNormForward<float>&);
template void run(Ref, const BatchNormForward<double>&);
template void run(Ref, const BatchNormBackward<float>&);
template void run(Ref, const BatchNormBackward<double>&);

}  // namespace norma::kernels
