#include "norma/kernels/attention.h"

#include <vector>

namespace norma::kernels {

namespace {

/// One query row of one head: logits after factor and softcap, for the visible keys.
template <class T, class Args>
void logits_of(const Args& a, Index b, Index h, Index i, Index seen, std::vector<T>& z) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  const Index kv = h / (s.heads / s.kv_heads);
  const T factor = a.head_factor[h] * static_cast<T>(s.row_factor(seen));
  const T* q = a.q.row(b * s.queries + i) + h * D;
  for (Index j = 0; j < seen; ++j) {
    const T* k = a.k.row(b * s.key_rows + j) + kv * D;
    T dot = 0;
    for (Index c = 0; c < D; ++c) dot += q[c] * k[c];
    const T logit = factor * dot;
    const auto cap = static_cast<T>(s.softcap);
    z[static_cast<std::size_t>(j)] = s.softcap > 0 ? cap * std::tanh(logit / cap) : logit;
  }
}

template <class T>
void put_row(Rows<T> rows, Index r, Index at, Index n, Into into, const T* values) {
  for (Index c = 0; c < n; ++c) {
    T& slot = rows(r, at + c);
    slot = into == Into::add ? slot + values[c] : values[c];
  }
}

template <class T>
void zero_if_set(Rows<T> rows, Into into) {
  if (into != Into::set) return;
  for (Index r = 0; r < rows.rows; ++r) std::fill(rows.row(r), rows.row(r) + rows.cols, T{0});
}

}  // namespace

template <class T>
void run(Ref, const AttentionForward<T>& a) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  std::vector<T> z(static_cast<std::size_t>(s.keys));
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const Index kv = h / (s.heads / s.kv_heads);
      for (Index i = 0; i < s.queries; ++i) {
        const Index seen = s.visible(b, i);
        T* o = a.o.row(b * s.queries + i) + h * D;
        std::fill(o, o + D, T{0});
        T& lse = a.lse[(b * s.heads + h) * s.queries + i];
        lse = 0;
        if (seen == 0) continue;
        logits_of(a, b, h, i, seen, z);
        const T most = *std::max_element(z.begin(), z.begin() + seen);
        T sum = 0;
        for (Index j = 0; j < seen; ++j) sum += std::exp(z[static_cast<std::size_t>(j)] - most);
        lse = most + std::log(sum);
        for (Index j = 0; j < seen; ++j) {
          const T p = std::exp(z[static_cast<std::size_t>(j)] - lse);
          const T* v = a.v.row(b * s.key_rows + j) + kv * D;
          for (Index c = 0; c < D; ++c) o[c] += p * v[c];
        }
      }
    }
  }
}

template <class T>
void run(Ref, const AttentionBackward<T>& a) {
  const AttentionShape& s = a.shape;
  const Index D = s.head_width;
  std::vector<T> z(static_cast<std::size_t>(s.keys));
  std::vector<T> along_k(static_cast<std::size_t>(D));
  if (a.dk) zero_if_set(a.dk, a.dk_into);
  if (a.dv) zero_if_set(a.dv, a.dv_into);
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const Index kv = h / (s.heads / s.kv_heads);
      T dfactor = 0;
      for (Index i = 0; i < s.queries; ++i) {
        const Index row = b * s.queries + i;
        const Index seen = s.visible(b, i);
        std::fill(along_k.begin(), along_k.end(), T{0});
        const auto row_factor = static_cast<T>(s.row_factor(seen));
        const T factor = a.head_factor[h] * row_factor;
        logits_of(a, b, h, i, seen, z);
        const T* q = a.q.row(row) + h * D;
        const T* dout = a.dout.row(row) + h * D;
        const T* o = a.o.row(row) + h * D;
        T delta = 0;
        for (Index c = 0; c < D; ++c) delta += dout[c] * o[c];
        for (Index j = 0; j < seen; ++j) {
          const T capped = z[static_cast<std::size_t>(j)];
          const T p = std::exp(capped - a.lse[(b * s.heads + h) * s.queries + i]);
          const T* k = a.k.row(b * s.key_rows + j) + kv * D;
          const T* v = a.v.row(b * s.key_rows + j) + kv * D;
          T dp = 0;
          for (Index c = 0; c < D; ++c) dp += dout[c] * v[c];
          T dlogit = p * (dp - delta);
          if (s.softcap > 0) {
            const T share = capped / static_cast<T>(s.softcap);
            dlogit *= 1 - share * share;
          }
          for (Index c = 0; c < D; ++c) along_k[static_cast<std::size_t>(c)] += dlogit * k[c];
          if (a.dk) {
            T* dk = a.dk.row(b * s.key_rows + j) + kv * D;
            for (Index c = 0; c < D; ++c) dk[c] += factor * dlogit * q[c];
          }
          if (a.dv) {
            T* dv = a.dv.row(b * s.key_rows + j) + kv * D;
            for (Index c = 0; c < D; ++c) dv[c] += p * dout[c];
          }
        }
        for (Index c = 0; c < D; ++c) {
          dfactor += row_factor * q[c] * along_k[static_cast<std::size_t>(c)];
          along_k[static_cast<std::size_t>(c)] *= factor;
        }
        if (a.dq) put_row(a.dq, row, h * D, D, a.dq_into, along_k.data());
      }
      if (a.dhead_factor != nullptr) a.dhead_factor[b * s.heads + h] = dfactor;
    }
  }
}

namespace {

template <class T>
T temperature_of(const HeadFactorForward<T>& a, Index h) {
  if (a.temperature == nullptr) return 1;
  const T stored = a.temperature[a.temperatures == 1 ? 0 : h];
  return a.exponential ? std::exp(std::min(stored, static_cast<T>(kLargestLogTemperature)))
                       : stored;
}

}  // namespace

template <class T>
void run(Ref, const HeadFactorForward<T>& a) {
  for (Index h = 0; h < a.heads; ++h) {
    const T log_scale = a.log_scale == nullptr ? T{1} : a.log_scale[h];
    a.factor[h] = static_cast<T>(a.scale) * temperature_of(a, h) * log_scale;
  }
}

template <class T>
void run(Ref, const HeadFactorBackward<T>& a) {
  const HeadFactorForward<T>& f = a.forward;
  if (a.dtemperature != nullptr && a.dtemperature_into == Into::set) {
    std::fill(a.dtemperature, a.dtemperature + f.temperatures, T{0});
  }
  for (Index h = 0; h < f.heads; ++h) {
    T dfactor = 0;
    for (Index b = 0; b < a.batch; ++b) dfactor += a.dfactor[b * f.heads + h];
    const T temperature = temperature_of(f, h);
    const T log_scale = f.log_scale == nullptr ? T{1} : f.log_scale[h];
    if (a.dtemperature != nullptr) {
      const Index at = f.temperatures == 1 ? 0 : h;
      T slope = 1;
      if (f.exponential) {
        slope = f.temperature[at] < static_cast<T>(kLargestLogTemperature) ? temperature : T{0};
      }
      a.dtemperature[at] += dfactor * static_cast<T>(f.scale) * log_scale * slope;
    }
    if (a.dlog_scale != nullptr) {
      const T value = dfactor * static_cast<T>(f.scale) * temperature;
      a.dlog_scale[h] = a.dlog_scale_into == Into::add ? a.dlog_scale[h] + value : value;
    }
  }
}

template void run(Ref, const AttentionForward<float>&);
template void run(Ref, const AttentionForward<double>&);
template void run(Ref, const AttentionBackward<float>&);
template void run(Ref, const AttentionBackward<double>&);
template void run(Ref, const HeadFactorForward<float>&);
template void run(Ref, const HeadFactorForward<double>&);
template void run(Ref, const HeadFactorBackward<float>&);
template void run(Ref, const HeadFactorBackward<double>&);

}  // namespace norma::kernels
