// The gradient of rms_norm(), for its own rule and for those of ops with such a norm inside.
#pragma once

#include "norma/kernels/rms_norm.h"
#include "norma/ops/dispatch.h"
#include "norma/ops/rms_norm.h"

namespace norma {

/// Where the gradients of x and gain go, and what is needed on the way.
class RmsNormGradient {
 public:
  /// `like`: a tensor of the shape, type and place of dy.
  RmsNormGradient(Backward& back,
                  Var x,
                  Var gain,
                  const Tensor& rstd,
                  const RmsNormSpec& spec,
                  const Tensor& like)
      : x_(x),
        gain_(gain),
        rstd_(rstd),
        spec_(spec),
        group_(spec.group == 0 ? like.shape.cols() : spec.group),
        dx_(wanted(back, x)),
        dgain_(wanted(back, gain)),
        partials_(back.scratch(partial_shape(like, gains(like.shape.cols()), bool(dgain_)),
                               wide(like.dtype))) {}

  template <class T>
  kernels::RmsNormBackward<T> of(const Tensor& dy) const {
    return {.x = rows<const T>(x_),
            .gain = elements<const Wide<T>>(gain_),
            .rstd = elements<const Wide<T>>(rstd_),
            .dy = rows<const T>(dy),
            .dx = dx_.rows<T>(),
            .dx_into = dx_.into,
            .dgain = dgain_.data<Wide<T>>(),
            .dgain_into = dgain_.into,
            .partials = elements<Wide<T>>(partials_.tensor()),
            .group = group_,
            .gain_per_column = spec_.gain_per_column,
            .gain_offset = spec_.gain_offset};
  }

 private:
  Index gains(Index cols) const { return spec_.gain_per_column ? cols : group_; }

  Var x_;
  Var gain_;
  Tensor rstd_;
  RmsNormSpec spec_;
  Index group_;
  WantedRows dx_;
  WantedRows dgain_;
  Scratch partials_;
};

}  // namespace norma
