#include "norma/kernels/optimizer_step.h"

#include <algorithm>

#include "norma/kernels/cpu/vector_blocks.h"
#include "norma/kernels/element_rules.h"
#include "norma/kernels/flags.h"
#include "norma/kernels/optimizer.h"

namespace norma::kernels {

namespace {

/// Calls f(element) with the element of a rule.
template <class F>
void with_element(const SgdRule& rule, double clip, F&& f) {
  if (rule.caution) {
    f(SgdElement<true>(rule, clip));
  } else {
    f(SgdElement<false>(rule, clip));
  }
}
template <class Rule, class F>
void with_element(const Rule& rule, double clip, F&& f) {
  f(typename ElementOf<Rule>::type(rule, clip));
}

/// n neighbouring elements from `begin` on.
template <class Step, class Element>
void step_run(const Step& a, const Element& element, Index begin, Index n) {
  float* __restrict w = a.w + begin;
  const float* __restrict g = a.g + begin;
  with_flags(a.first != nullptr, a.second != nullptr, [&](auto has_first, auto has_second) {
    float* __restrict first = has_first ? a.first + begin : nullptr;
    float* __restrict second = has_second ? a.second + begin : nullptr;
#pragma omp simd
    for (Index i = 0; i < n; ++i) {
      float state1 = 0;
      float state2 = 0;
      if constexpr (has_first) state1 = first[i];
      if constexpr (has_second) state2 = second[i];
      w[i] = element(w[i], g[i], state1, state2);
      if constexpr (has_first) first[i] = state1;
      if constexpr (has_second) second[i] = state2;
    }
  });
}

/// Whether row r has no gradient and may rest.
template <class Step>
bool rests(const Step& a, Index r) {
  const float* g = a.g + r * a.cols;
  return a.lazy_rows && std::all_of(g, g + a.cols, [](float x) { return x == 0; });
}

template <class Step, class Element>
void step_rows(const Step& a, const Element& element) {
  const VectorLayout layout{a.rows, a.cols, false};
  for_each_row(a.rows, a.cols, [&](Index r) {
    if (rests(a, r)) return;
    step_run(a, element, r * a.cols, a.cols);
    if (a.keep == Keep::nothing) return;
    float* w = a.w;
    const RowBlock row(layout, r);
    double squares = 0;
    row.sum(&squares, [w](Index i, Index) { return w[i] * w[i]; });
    const float factor = keeping_factor(squares, keeps_short(a.keep));
    row.each([w, factor](Index i, Index) { w[i] *= factor; });
  });
}

/// The step and, while the new weights are in the cache, their squares column by column.
template <class Step, class Element>
void step_columns(const Step& a, const Element& element) {
  for_each_chunk(RowChunks(a.rows), a.cols, [&](Index chunk, Index begin, Index end) {
    float* __restrict sums = a.partials + chunk * a.cols;
    std::fill(sums, sums + a.cols, 0.0f);
    for (Index r = begin; r < end; ++r) {
      if (!rests(a, r)) step_run(a, element, r * a.cols, a.cols);
      const float* __restrict w = a.w + r * a.cols;
#pragma omp simd
      for (Index c = 0; c < a.cols; ++c) sums[c] += w[c] * w[c];
    }
  });
  scale_columns(a.w, a.rows, a.cols, a.keep, a.partials);
}

}  // namespace

template <class Rule>
void run(Cpu, const ElementStep<float, Rule>& a) {
  with_element(*a.rule, factor_at(a.clip), [&](const auto& element) {
    if (keeps_columns(a.keep)) {
      step_columns(a, element);
    } else if (keeps_rows(a.keep) || a.lazy_rows) {
      step_rows(a, element);
    } else {
      const Index count = a.rows * a.cols;
      for_each_row(norm_pieces(count), kNormPiece, [&](Index piece) {
        const Index begin = piece * kNormPiece;
        step_run(a, element, begin, std::min(count - begin, kNormPiece));
      });
    }
  });
}

void run(Cpu, const SgdAgreement<float>& a) {
  const SgdElement<true> element(*a.rule, factor_at(a.clip));
  for_each_row(norm_pieces(a.count), kNormPiece, [&](Index piece) {
    const Index begin = piece * kNormPiece;
    const Index end = std::min(a.count, begin + kNormPiece);
    int agreeing = 0;
#pragma omp simd reduction(+ : agreeing)
    for (Index i = begin; i < end; ++i) {
      const float g = element.gradient(a.w[i], a.g[i]);
      float b = a.b == nullptr ? 0.0f : a.b[i];
      agreeing += element.direction(g, b) * g > 0 ? 1 : 0;
    }
    a.partials[piece] = agreeing;
  });
}

template void run(Cpu, const ElementStep<float, SgdRule>&);
template void run(Cpu, const ElementStep<float, AdamRule>&);
template void run(Cpu, const ElementStep<float, GatedAdamRule>&);
template void run(Cpu, const ElementStep<float, LionRule>&);
template void run(Cpu, const ElementStep<float, AdagradRule>&);
template void run(Cpu, const ElementStep<float, RmspropRule>&);
template void run(Cpu, const ElementStep<float, SignRule>&);

}  // namespace norma::kernels
