#include "norma/optim/clip.h"

#include <algorithm>

#include "norma/device/device.h"
#include "norma/kernels/vectors.h"
#include "norma/optim/step_rule.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

using kernels::ClipState;

Index most_rows(const ParamStore& params) {
  Index most = 1;
  for (const Param& param : params.params()) most = std::max(most, param.shape.rows());
  return most;
}

Buffer partials_for(const Tensor& grads) {
  const auto pieces = static_cast<std::size_t>(kernels::norm_pieces(grads.count()));
  return Buffer(pieces * sizeof(double), grads.device);
}

/// work(|x|²)
template <class Work>
void squares_then(const Tensor& x, const Buffer& partials, const Work& work) {
  with_kernels(x, [&]<class T>(auto who, T) {
    kernels::squares_then(
        who, x.as<const T>(), x.count(), reinterpret_cast<double*>(partials.data()), work);
  });
}

}  // namespace

GlobalNorm::GlobalNorm(const ParamStore& params)
    : partials_(partials_for(params.grads())), norm_({1}, DType::f64, params.grads().device) {}

double GlobalNorm::of(const Tensor& flat) const {
  if (planning()) return 0;
  squares_then(flat, partials_, kernels::StoreNorm{norm_.tensor.as<double>()});
  return value_at(norm_.tensor, 0, 0);
}

ClipResult::ClipResult(const ClipState& found)
    : norm(found.norm), grad_scale(found.grad_scale), clipped(static_cast<Index>(found.clipped)) {}

double clip_factor(double norm, double max_norm) {
  return kernels::clipping_factor(norm, max_norm);
}

Clipper::Clipper(const ParamStore& params, const OptimSpec& spec)
    : mode_(spec.clip),
      bound_(resolved(spec).clip_bound),
      flags_(static_cast<std::size_t>(most_rows(params)) * size_of(params.grads().dtype),
             params.grads().device),
      partials_(partials_for(params.grads())),
      state_(sizeof(ClipState), params.grads().device) {}

ClipState* Clipper::state() const { return reinterpret_cast<ClipState*>(state_.data()); }

void Clipper::clip(const ParamStore& params) const {
  const double bound = mode_ == ClipMode::global ? bound_ : 0;
  squares_then(params.grads(), partials_, kernels::GlobalClip{bound, state()});
  if (bound_ == 0 || mode_ == ClipMode::global) return;
  for (const Param& param : params.params()) {
    if (param.frozen) continue;
    if (mode_ == ClipMode::agc) {
      clip_rows(params, param);
    } else {
      clip_tensor(params, param);
    }
  }
}

const double* Clipper::grad_scale() const { return &state()->grad_scale; }
const ClipState* Clipper::found() const { return state(); }

ClipResult Clipper::result() const {
  if (planning()) return {};
  ClipState found{};
  if (state_.device().kind == DeviceKind::cuda) {
    device::copy_out(&found, state_.data(), sizeof found);
  } else {
    found = *state();
  }
  return ClipResult(found);
}

ClipResult Clipper::operator()(const ParamStore& params) const {
  clip(params);
  return result();
}

void Clipper::clip_tensor(const ParamStore& params, const Param& param) const {
  const Tensor grad = params.grad(param);
  squares_then(grad, partials_, kernels::TensorClip{bound_, state()});
  with_kernels(grad, [&]<class T>(auto who, T) {
    kernels::run(who, kernels::ScaleBy<T>{grad.as<T>(), grad.count(), &state()->factor});
  });
}

void Clipper::clip_rows(const ParamStore& params, const Param& param) const {
  with_kernels(params.grad(param), [&]<class T>(auto who, T) {
    T* flags = reinterpret_cast<T*>(flags_.data());
    const kernels::VectorLayout layout{param.shape.rows(), param.shape.cols(), false};
    kernels::run(who,
                 kernels::AdaptiveClip<T>{.w = params.value(param).as<const T>(),
                                          .g = params.grad(param).as<T>(),
                                          .layout = layout,
                                          .clip = bound_,
                                          .clipped = flags});
    kernels::run(who, kernels::CountFlags<T>{flags, layout.rows, &state()->clipped});
  });
}

}  // namespace norma
