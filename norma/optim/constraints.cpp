#include "norma/optim/constraints.h"

#include <algorithm>
#include <cmath>

#include "norma/base/rng.h"
#include "norma/kernels/direction.h"
#include "norma/kernels/optimizer.h"
#include "norma/kernels/parallel.h"
#include "norma/optim/step_elements.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

// From a random vector, far more than a matrix with any gap between its singular values needs; from
// the vector of the step before, which has turned little, a few are enough.
constexpr int kFirstRounds = 200;
constexpr int kRounds = 8;

/// The largest singular value, after so many rounds of power iteration from the kept vector.
double sigma_of(const Place& place, std::size_t vector_slot, int rounds) {
  double sigma = 0;
  with_kernels(place.w, [&]<class T>(auto who, T) {
    for (int round = 0; round < rounds; ++round) {
      kernels::run(who,
                   kernels::PowerIteration<T>{.w = place.w.as<const T>(),
                                              .rows = place.span->rows,
                                              .cols = place.span->cols,
                                              .v = place.slot<T>(vector_slot),
                                              .u = place.scratch_as<T>(),
                                              .sigma = &sigma});
    }
  });
  return sigma;
}

double frobenius_of(const Place& place) {
  double squares = 0;
  with_kernels(place.w, [&]<class T>(auto who, T) {
    squares = kernels::squared_norm(who, place.w.as<const T>(), place.span->count, place.partials);
  });
  return std::sqrt(squares);
}

/// The norm that the constraint is about.
double norm_of(const Place& place, std::size_t first, int rounds) {
  return place.span->tags.constraint == Constraint::spectral ? sigma_of(place, first + 1, rounds)
                                                             : frobenius_of(place);
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
  with_kernels(place.w, [&]<class T>(auto, T) {
    if (place.span->tags.constraint == Constraint::spectral) {
      T* v = place.slot<T>(first + 1);
      for (Index i = 0; i < place.span->cols; ++i) {
        v[i] = static_cast<T>(normal_at({1, 1}, static_cast<std::uint64_t>(i)));
      }
    }
    *place.slot<T>(first) = static_cast<T>(norm_of(place, first, kFirstRounds));
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
                                         .partials = place.scratch_as<T>()});
  });
}

void keep_norm(const Place& place, std::size_t first) {
  if (!keeps_norm(*place.span)) return;
  with_kernels(place.w, [&]<class T>(auto, T) {
    const double now = norm_of(place, first, kRounds);
    const auto radius = static_cast<double>(*place.slot<T>(first));
    if (now > 0) scale(place.w, radius / now);
  });
}

void apply_constraints(ParamStore& params) {
  Buffer scratch;
  for (std::size_t i = 0; i < params.params().size(); ++i) {
    const Span span = span_of(params, i, {});
    const Tensor values = params.value(params.params()[i]);
    const std::size_t bytes =
        static_cast<std::size_t>(column_scratch(span)) * size_of(values.dtype);
    if (bytes > scratch.bytes()) scratch = Buffer(bytes);
    Place place;
    place.span = &span;
    place.w = values.reshaped({span.count});
    place.scratch = scratch.data();
    place.keep = keep_of(span.tags);
    keep_vectors(place);
  }
}

double unit_norm_error(const ParamStore& params) {
  double worst = 0;
  for (const Param& param : params.params()) {
    if (param.tags.constraint != Constraint::unit) continue;
    with_kernels(params.value(param), [&]<class T>(auto, T) {
      double error = 0;
      kernels::run(kernels::Ref{},
                   kernels::UnitError<T>{.w = params.value(param).as<const T>(),
                                         .layout = {param.shape.rows(),
                                                    param.shape.cols(),
                                                    param.tags.axis == VectorAxis::columns},
                                         .worst = &error});
      if (!(error <= worst) && !std::isnan(worst)) worst = error;
    });
  }
  return worst;
}

}  // namespace norma
