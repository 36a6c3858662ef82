// Neighbouring parameters that are stepped as one, and what a step may know of them. Nothing here
// depends on the device.
#pragma once

#include <vector>

#include "norma/kernels/optimizer_step.h"
#include "norma/nn/param_store.h"
#include "norma/optim/optim_spec.h"

namespace norma {

struct Span {
  Index offset = 0;  // in the flat buffers
  Index count = 0;   // gaps between its parameters included
  Index rows = 1;    // of a lone parameter; several are one row
  Index cols = 0;
  int rank = 0;
  ParamTags tags;              // of the first parameter
  double lr_factor = 1;        // of all its parameters
  bool lazy = false;           // rows without gradient rest
  std::size_t first = 0;       // of its parameters in ParamStore::params()
  std::size_t parameters = 1;  // how many follow each other
};

/// The settings' factor for a class of parameters times the parameter's own.
double lr_factor(const OptimSpec& spec, const ParamTags& tags);

/// One parameter as a span.
Span span_of(const ParamStore& params, std::size_t index, const OptimSpec& spec);

/// Adds `next` to `span` when every element of both is treated alike and nothing is asked of their
/// vectors. The gap between them holds zeros, which every step leaves at zero.
bool merge(Span& span, const Span& next);

/// What the step must keep of the vectors of a span.
kernels::Keep keep_of(const ParamTags& tags);

}  // namespace norma
