// A rule whose step is one kernel over the elements of a span, or of several.
#pragma once

#include "norma/kernels/parallel.h"
#include "norma/optim/step_rule.h"

namespace norma {

/// Elements of scratch memory that keeping the columns of a span needs.
inline Index column_scratch(const Span& span) {
  return keeps_columns(keep_of(span.tags)) ? kernels::RowChunks(span.rows).count * span.cols : 0;
}

class ElementRule : public StepRule {
 public:
  Index scratch(const Span& span) const override { return column_scratch(span); }
  bool steps_together() const override { return true; }

 protected:
  /// With the rules that were prepared.
  template <class Rule>
  static void run(std::span<const Place> places) {
    with_kernels(places.front().w, [&]<class T>(auto who, T) {
      kernels::Together<kernels::ElementStep<T, Rule>> steps{};
      for (const Place& place : places) {
        steps.add({.w = place.w.as<T>(),
                   .g = place.g.as<const T>(),
                   .first = place.rule_slot<T>(0),
                   .second = place.rule_slot<T>(1),
                   .rows = place.span->rows,
                   .cols = place.span->cols,
                   .rule = place.numbers_as<const Rule>(),
                   .keep = place.keep,
                   .lazy_rows = place.span->lazy,
                   .partials = place.scratch_as<T>(),
                   .clip = place.clip,
                   .copy = place.copy});
      }
      kernels::run(who, steps);
    });
  }
};

}  // namespace norma
