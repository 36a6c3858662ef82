#include "norma/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/optimizer.h"
#include "norma/kernels/vectors.h"
#include "norma/optim/step_rule.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

Index largest(const ParamStore& params, Index (*of)(const Param&)) {
  Index most = 1;
  for (const Param& param : params.params()) most = std::max(most, of(param));
  return most;
}

Buffer partials_for(Index count) {
  return Buffer(static_cast<std::size_t>(kernels::norm_pieces(count)) * sizeof(double));
}

double norm_of(const Tensor& grads, const Buffer& partials) {
  double squares = 0;
  with_kernels(grads, [&]<class T>(auto who, T) {
    squares = kernels::squared_norm(
        who, grads.as<const T>(), grads.count(), reinterpret_cast<double*>(partials.data()));
  });
  return std::sqrt(squares);
}

}  // namespace

GlobalNorm::GlobalNorm(const ParamStore& params)
    : partials_(partials_for(params.grads().count())) {}

double GlobalNorm::of(const Tensor& flat) const { return norm_of(flat, partials_); }

double clip_factor(double norm, double max_norm) {
  return max_norm == 0 ? 1 : std::min(1.0, max_norm / (norm + 1e-6));
}

Clipper::Clipper(const ParamStore& params, const OptimSpec& spec)
    : norm_(params),
      mode_(spec.clip),
      bound_(resolved(spec).clip_bound),
      flags_(static_cast<std::size_t>(
                 largest(params, [](const Param& param) { return param.shape.rows(); })) *
             size_of(params.grads().dtype)),
      partials_(partials_for(largest(params, [](const Param& param) { return param.count(); }))) {}

ClipResult Clipper::operator()(ParamStore& params) const {
  ClipResult result{.norm = norm_(params), .grad_scale = 1, .clipped = 0};
  if (bound_ == 0) return result;
  if (mode_ == ClipMode::global) {
    result.grad_scale = clip_factor(result.norm, bound_);
    result.clipped = result.grad_scale < 1 ? 1 : 0;
    return result;
  }
  for (const Param& param : params.params()) {
    if (param.frozen) continue;
    result.clipped +=
        mode_ == ClipMode::agc ? clip_rows(params, param) : clip_tensor(params, param);
  }
  return result;
}

Index Clipper::clip_tensor(const ParamStore& params, const Param& param) const {
  const Tensor grad = params.grad(param);
  const double factor = clip_factor(norm_of(grad, partials_), bound_);
  if (factor >= 1) return 0;
  scale(grad, factor);
  return 1;
}

Index Clipper::clip_rows(const ParamStore& params, const Param& param) const {
  Index clipped = 0;
  with_kernels(params.grad(param), [&]<class T>(auto who, T) {
    T* flags = reinterpret_cast<T*>(flags_.data());
    const kernels::VectorLayout layout{param.shape.rows(), param.shape.cols(), false};
    kernels::run(who,
                 kernels::AdaptiveClip<T>{.w = params.value(param).as<const T>(),
                                          .g = params.grad(param).as<T>(),
                                          .layout = layout,
                                          .clip = bound_,
                                          .clipped = flags});
    clipped = std::count(flags, flags + layout.rows, T{1});
  });
  return clipped;
}

}  // namespace norma
