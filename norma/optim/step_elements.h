// A rule whose step is one kernel over the elements of a span.
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

 protected:
  /// With the rule that was prepared.
  template <class Rule>
  static void run(const Place& place) {
    with_kernels(place.w, [&]<class T>(auto who, T) {
      kernels::run(who,
                   kernels::ElementStep<T, Rule>{.w = place.w.as<T>(),
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
    });
  }
};

}  // namespace norma
