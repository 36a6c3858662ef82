#include "norma/optim/angle_meter.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "norma/base/error.h"
#include "norma/optim/step_rule.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

/// What of a parameter turns.
kernels::VectorLayout layout_of(const Param& param) {
  if (param.tags.constraint != Constraint::unit) return {1, param.count(), false};
  return {param.shape.rows(), param.shape.cols(), param.tags.axis == VectorAxis::columns};
}

Angles summary(ParamClass kind, std::vector<double>& angles) {
  double sum = 0;
  for (const double angle : angles) sum += angle;
  const auto count = static_cast<double>(angles.size());
  // The nearest rank: the smallest angle that at least 95 % do not exceed.
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(0.95 * count)) - 1;
  std::nth_element(angles.begin(), angles.begin() + rank, angles.end());
  return {
      kind, static_cast<Index>(angles.size()), sum / count, angles[static_cast<std::size_t>(rank)]};
}

}  // namespace

void AngleMeter::before(const ParamStore& params) {
  const Tensor values = params.values();
  if (values_.tensor.count() != values.count() || values_.tensor.dtype != values.dtype ||
      values_.tensor.data == nullptr) {
    values_ = OwnedTensor(values.shape, values.dtype, values.device);
  }
  copy(values, values_.tensor);
}

std::vector<Angles> AngleMeter::after(const ParamStore& params) const {
  const Tensor values = params.values();
  if (values_.tensor.data == nullptr || values_.tensor.count() != values.count()) {
    throw Error("the angle of a step needs the weights before it; call before() first.");
  }
  std::vector<Param> turning;
  Index vectors = 0;
  for (const Param& param : params.params()) {
    if (param.shape.rank() < 2 && param.tags.constraint != Constraint::unit) continue;
    turning.push_back(param);
    vectors += layout_of(param).vectors();
  }
  if (turning.empty()) return {};
  const OwnedTensor measured({vectors}, DType::f64, values.device);
  with_kernels(values, [&]<class T>(auto who, T) {
    double* next = measured.tensor.as<double>();
    for (const Param& param : turning) {
      const kernels::VectorLayout layout = layout_of(param);
      kernels::run(kernels::measuring(who),
                   kernels::VectorAngles<T>{.before = values_.tensor.as<const T>() + param.offset,
                                            .after = values.as<const T>() + param.offset,
                                            .layout = layout,
                                            .angles = next});
      next += layout.vectors();
    }
  });
  const OwnedTensor home(measured.tensor.shape, DType::f64);
  copy(measured.tensor, home.tensor);
  std::map<ParamClass, std::vector<double>> angles;
  const double* next = home.tensor.as<const double>();
  for (const Param& param : turning) {
    std::vector<double>& all = angles[param.tags.kind];
    const Index count = layout_of(param).vectors();
    all.insert(all.end(), next, next + count);
    next += count;
  }
  std::vector<Angles> summaries;
  summaries.reserve(angles.size());
  for (auto& [kind, list] : angles) summaries.push_back(summary(kind, list));
  return summaries;
}

}  // namespace norma
