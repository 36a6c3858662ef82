#include "norma/optim/adamw.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/kernels/optimizer.h"

namespace norma {

AdamW::AdamW(const ParamStore& params, AdamWSpec spec)
    : spec_(spec), first_(params.values().bytes()), second_(params.values().bytes()) {
  if (!(spec.eps > 0)) {
    throw RequestError(say("adamw: eps must be positive, got ", spec.eps, "."));
  }
  bool neighbour = false;  // the parameter before this one is in the last span
  for (const Param& param : params.params()) {
    if (param.frozen) {
      neighbour = false;
      continue;
    }
    // The gap before the next leaf holds zeros, which every step leaves at zero.
    if (neighbour && spans_.back().tags == param.tags) {
      spans_.back().count = param.offset + param.count() - spans_.back().offset;
    } else {
      spans_.push_back({param.offset, param.count(), param.tags});
    }
    neighbour = true;
  }
}

void AdamW::step(ParamStore& params, double lr, double grad_scale) {
  ++t_;
  const Tensor values = params.values();
  const Tensor grads = params.grads();
  const auto step = [&]<class T>(auto who, T) {
    for (const Span& span : spans_) {
      kernels::run(who,
                   kernels::AdamWStep<T>{.w = values.as<T>() + span.offset,
                                         .g = grads.as<const T>() + span.offset,
                                         .m = reinterpret_cast<T*>(first_.data()) + span.offset,
                                         .v = reinterpret_cast<T*>(second_.data()) + span.offset,
                                         .count = span.count,
                                         .t = t_,
                                         .grad_scale = grad_scale,
                                         .lr = lr * span.tags.lr_scale,
                                         .decay = span.tags.decay ? spec_.weight_decay : 0,
                                         .beta1 = spec_.beta1,
                                         .beta2 = spec_.beta2,
                                         .eps = spec_.eps});
    }
  };
  if (values.dtype == DType::f64) {
    step(kernels::Ref{}, double{});
  } else {
    step(kernels::Cpu{}, float{});
  }
}

}  // namespace norma
