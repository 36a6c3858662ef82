#include "norma/optim/constraints.h"

#include <algorithm>
#include <cmath>

#include "norma/base/rng.h"
#include "norma/kernels/direction.h"
#include "norma/kernels/sum_work.h"
#include "norma/optim/step_elements.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

// From a random vector, far more than a matrix with any gap between its singular values needs; from
// the vector of the step before, which has turned little, a few are enough.
constexpr int kFirstRounds = 200;
constexpr int kRounds = 8;

/// work(the norm that the constraint is about, or its square); spectral follows the kept vector for
/// so many rounds of power iteration.
template <class Who, class T, class MakeWork>
void norm_then(Who who, const Place& place, std::size_t first, int rounds, T, MakeWork&& work) {
  const T* w = place.w.as<const T>();
  if (place.span->tags.constraint != Constraint::spectral) {
    kernels::squares_then(who, w, place.span->count, place.partials, work(true));
    return;
  }
  double* sigma = place.scalars;
  for (int round = 0; round < rounds; ++round) {
    kernels::run(who,
                 kernels::PowerIteration<T>{.w = w,
                                            .rows = place.span->rows,
                                            .cols = place.span->cols,
                                            .v = place.slot<T>(first + 1),
                                            .u = place.scratch_as<T>(),
                                            .sigma = sigma});
  }
  kernels::run(who, kernels::SumThen<decltype(work(false))>{sigma, 1, work(false)});
}

bool keeps_norm(const Span& span) {
  return span.tags.constraint == Constraint::frobenius ||
         span.tags.constraint == Constraint::spectral;
}

}  // namespace

std::vector<StateSlot> constraint_slots(const Span& span) {
  if (!keeps_norm(span)) return {};
  std::vector<StateSlot> slots{{"constraint_radius", 1, false}};
  if (span.tags.constraint == Constraint::spectral) {
    slots.push_back({"singular_vector", span.cols, false});
  }
  return slots;
}

Index constraint_scratch(const Span& span) {
  return span.tags.constraint == Constraint::spectral ? span.rows : column_scratch(span);
}

void start_constraint(const Place& place, std::size_t first) {
  if (!keeps_norm(*place.span)) return;
  with_kernels(place.w, [&]<class T>(auto who, T zero) {
    if (place.span->tags.constraint == Constraint::spectral) {
      const OwnedTensor drawn({place.span->cols}, place.w.dtype);
      T* v = drawn.tensor.as<T>();
      for (Index i = 0; i < place.span->cols; ++i) {
        v[i] = static_cast<T>(normal_at({1, 1}, static_cast<std::uint64_t>(i)));
      }
      copy(drawn.tensor,
           Tensor(place.slot<T>(first + 1), drawn.tensor.shape, place.w.dtype, place.w.device));
    }
    norm_then(who, place, first, kFirstRounds, zero, [&](bool squared) {
      return kernels::StoreRadius<T>{place.slot<T>(first), squared};
    });
  });
}

void keep_vectors(const Place& place) {
  if (place.keep == kernels::Keep::nothing) return;
  with_kernels(place.w, [&]<class T>(auto who, T) {
    kernels::run(who,
                 kernels::KeepVectors<T>{.w = place.w.as<T>(),
                                         .rows = place.span->rows,
                                         .cols = place.span->cols,
                                         .keep = place.keep,
                                         .partials = place.scratch_as<T>(),
                                         .copy = place.copy});
  });
}

void keep_norm(const Place& place, std::size_t first) {
  if (!keeps_norm(*place.span)) return;
  with_kernels(place.w, [&]<class T>(auto who, T zero) {
    double* factor = place.scalars + 1;
    norm_then(who, place, first, kRounds, zero, [&](bool squared) {
      return kernels::RestoreRadius<T>{
          .radius = place.slot<T>(first), .squared = squared, .moved = nullptr, .factor = factor};
    });
    kernels::run(who, kernels::ScaleBy<T>{place.w.as<T>(), place.span->count, factor, place.copy});
  });
}

void apply_constraints(ParamStore& params) {
  Buffer scratch;
  for (std::size_t i = 0; i < params.params().size(); ++i) {
    const Span span = span_of(params, i, {});
    const Tensor values = params.value(params.params()[i]);
    const std::size_t bytes =
        static_cast<std::size_t>(column_scratch(span)) * size_of(values.dtype);
    if (bytes > scratch.bytes()) scratch = Buffer(bytes, values.device);
    Place place;
    place.span = &span;
    place.w = values.reshaped({span.count});
    place.scratch = scratch.data();
    place.keep = keep_of(span.tags);
    keep_vectors(place);
  }
  params.refresh_copies();
}

double unit_norm_error(const ParamStore& params) {
  std::vector<Param> units;
  for (const Param& param : params.params()) {
    if (param.tags.constraint == Constraint::unit) units.push_back(param);
  }
  if (units.empty()) return 0;
  const Tensor values = params.values();
  const OwnedTensor errors({static_cast<Index>(units.size())}, DType::f64, values.device);
  with_kernels(values, [&]<class T>(auto who, T) {
    double* worst = errors.tensor.as<double>();
    for (const Param& param : units) {
      kernels::run(kernels::measuring(who),
                   kernels::UnitError<T>{.w = params.value(param).as<const T>(),
                                         .layout = {param.shape.rows(),
                                                    param.shape.cols(),
                                                    param.tags.axis == VectorAxis::columns},
                                         .worst = worst++});
    }
  });
  const OwnedTensor home(errors.tensor.shape, DType::f64);
  copy(errors.tensor, home.tensor);
  double worst = 0;
  for (const double error : home.tensor.elements<const double>()) {
    if (!(error <= worst) && !std::isnan(worst)) worst = error;
  }
  return worst;
}

}  // namespace norma
