#include "norma/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "norma/kernels/optimizer.h"

namespace norma {

GlobalNorm::GlobalNorm(const ParamStore& params)
    : partials_(static_cast<std::size_t>(kernels::norm_pieces(params.grads().count())) *
                sizeof(double)) {}

double GlobalNorm::operator()(const ParamStore& params) const {
  const Tensor grads = params.grads();
  auto* partials = reinterpret_cast<double*>(partials_.data());
  if (grads.dtype == DType::f64) {
    kernels::run(kernels::Ref{},
                 kernels::SquaredNorm<double>{grads.as<const double>(), grads.count(), partials});
  } else {
    kernels::run(kernels::Cpu{},
                 kernels::SquaredNorm<float>{grads.as<const float>(), grads.count(), partials});
  }
  double sum = 0;
  for (Index piece = 0; piece < kernels::norm_pieces(grads.count()); ++piece) {
    sum += partials[piece];
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double max_norm) {
  return max_norm == 0 ? 1 : std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace norma
