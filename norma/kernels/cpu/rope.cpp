#include "norma/kernels/rope.h"

#include "norma/kernels/cpu/turn_head.h"

namespace norma::kernels {

namespace {

template <RopeLayout kLayout, bool kTransposed>
void turn_rows(const Rope<float>& a) {
  const RopeFactors<float>& f = a.factors;
  const Index head = 2 * f.pairs;
  with_into(a.into, [&](auto add) {
    constexpr bool kAdd = decltype(add)::value;
    for_each_row(a.x.rows, a.x.cols, [&](Index r) {
      const float* x = a.x.row(r);
      float* y = a.y.row(r);
      for (Index at = 0; at < a.x.cols; at += head) {
        turn_pairs<kLayout, kTransposed, kAdd>(
            x + at, f.cosine_of(r), f.sine_of(r), f.pairs, y + at);
      }
    });
  });
}

}  // namespace

void run(Cpu, const Rope<float>& a) {
  with_layout(a.factors.layout, [&](auto layout) {
    if (a.transposed) {
      turn_rows<decltype(layout)::value, true>(a);
    } else {
      turn_rows<decltype(layout)::value, false>(a);
    }
  });
}

}  // namespace norma::kernels
