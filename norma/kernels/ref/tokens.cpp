#include "norma/kernels/tokens.h"

#include <algorithm>

namespace norma::kernels {

namespace {

template <class T>
void put_at(T& slot, Into into, T value) {
  slot = into == Into::add ? slot + value : value;
}

}  // namespace

template <class T>
void run(Ref, const PrependForward<T>& a) {
  for (Index r = 0; r < a.y.rows; ++r) {
    const Index sequence = r / (a.tokens + 1);
    const Index t = r % (a.tokens + 1);
    for (Index c = 0; c < a.y.cols; ++c) {
      a.y(r, c) = t == 0 ? a.token[c] : a.x(sequence * a.tokens + t - 1, c);
    }
  }
}

template <class T>
void run(Ref, const PrependBackward<T>& a) {
  if (a.dtoken != nullptr && a.dtoken_into == Into::set) {
    std::fill(a.dtoken, a.dtoken + a.dy.cols, T{0});
  }
  for (Index r = 0; r < a.dy.rows; ++r) {
    const Index sequence = r / (a.tokens + 1);
    const Index t = r % (a.tokens + 1);
    for (Index c = 0; c < a.dy.cols; ++c) {
      if (t == 0) {
        if (a.dtoken != nullptr) a.dtoken[c] += a.dy(r, c);
      } else if (a.dx) {
        put_at(a.dx(sequence * a.tokens + t - 1, c), a.dx_into, a.dy(r, c));
      }
    }
  }
}

template <class T>
void run(Ref, const AddPositions<T>& a) {
  for (Index r = 0; r < a.x.rows; ++r) {
    for (Index c = 0; c < a.x.cols; ++c) {
      a.y(r, c) = a.x(r, c) + a.positions[(r % a.tokens) * a.x.cols + c];
    }
  }
}

template <class T>
void run(Ref, const PositionSum<T>& a) {
  if (a.into == Into::set) std::fill(a.sums, a.sums + a.table_rows * a.dy.cols, T{0});
  for (Index r = 0; r < a.dy.rows; ++r) {
    for (Index c = 0; c < a.dy.cols; ++c) {
      a.sums[(a.first + r % a.tokens) * a.dy.cols + c] += static_cast<T>(a.scale) * a.dy(r, c);
    }
  }
}

template <class T>
void run(Ref, const PoolForward<T>& a) {
  for (Index s = 0; s < a.y.rows; ++s) {
    for (Index c = 0; c < a.y.cols; ++c) {
      T sum = 0;
      for (Index t = a.begin; t < a.end; ++t) sum += a.x(s * a.tokens + t, c);
      a.y(s, c) = static_cast<T>(a.factor) * sum;
    }
  }
}

template <class T>
void run(Ref, const PoolBackward<T>& a) {
  for (Index r = 0; r < a.dx.rows; ++r) {
    const Index t = r % a.tokens;
    const bool used = t >= a.begin && t < a.end;
    for (Index c = 0; c < a.dx.cols; ++c) {
      const T value = used ? static_cast<T>(a.factor) * a.dy(r / a.tokens, c) : T{0};
      put_at(a.dx(r, c), a.dx_into, value);
    }
  }
}

template void run(Ref, const PrependForward<float>&);
template void run(Ref, const PrependForward<double>&);
template void run(Ref, const PrependBackward<float>&);
template void run(Ref, const PrependBackward<double>&);
template void run(Ref, const AddPositions<float>&);
template void run(Ref, const AddPositions<double>&);
template void run(Ref, const PositionSum<float>&);
template void run(Ref, const PositionSum<double>&);
template void run(Ref, const PoolForward<float>&);
template void run(Ref, const PoolForward<double>&);
template void run(Ref, const PoolBackward<float>&);
template void run(Ref, const PoolBackward<double>&);

}  // namespace norma::kernels
