#include "norma/ops/geodesic.h"

#include "norma/ops/dispatch.h"

namespace norma {

namespace {

using kernels::GeodesicRow;

std::string_view name_of(GeodesicRule rule) {
  switch (rule) {
    case GeodesicRule::lerp:
      return "lerp";
    case GeodesicRule::slerp:
      return "slerp";
    case GeodesicRule::riem:
      return "riem";
  }
  return "?";
}

/// The rows of a saved f64 tensor.
GeodesicRow* stats_of(const Tensor& saved) {
  return reinterpret_cast<GeodesicRow*>(elements<double>(saved));
}

}  // namespace

Var geodesic(Var h, Var b, Var alpha, GeodesicSpec spec) {
  const std::string_view op = name_of(spec.rule);
  require_float(op, "h", h);
  require_float(op, "b", b);
  require_float(op, "alpha", alpha);
  require_same_type(op, h, "b", b);
  require_vector_type(op, h, "alpha", alpha);
  require_shape(op, "b", b, h.shape());
  const Index cols = h.shape().cols();
  const Index alphas = alpha.shape().count();
  if (alphas != 1) require_shape(op, "alpha", alpha, {cols});

  Tape& tape = h.tape();
  const Var y = tape.output(h.shape(), h.dtype());
  constexpr Index kNumbers = sizeof(GeodesicRow) / sizeof(double);
  const Tensor stats = tape.saved({h.shape().rows(), kNumbers}, DType::f64);
  {
    const Scratch steps = tape.scratch({cols}, DType::f64);
    dispatch(op, h.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::GeodesicForward<T>{.h = rows<const T>(h),
                                               .b = rows<const T>(b),
                                               .alpha = elements<const Wide<T>>(alpha),
                                               .alpha_count = alphas,
                                               .y = rows<T>(y),
                                               .stats = stats_of(stats),
                                               .steps = elements<double>(steps.tensor()),
                                               .rule = spec.rule,
                                               .alpha_mult = spec.alpha_mult,
                                               .eps = spec.eps});
    });
  }
  tape.pin(h);
  tape.pin(b);
  tape.pin(alpha);
  tape.record(op, {h, b, alpha}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    const WantedRows dh = wanted(back, h);
    const WantedRows db = wanted(back, b);
    const WantedRows dalpha = wanted(back, alpha);
    // A GPU works the weights of an arc out again.
    const bool arcs = spec.rule == GeodesicRule::slerp && dy.device.kind == DeviceKind::cpu;
    const Scratch partials = back.scratch(partial_shape(dy, cols, bool(dalpha)), DType::f64);
    const Scratch weights = back.scratch(partial_shape(dy, 2 * cols, arcs), DType::f64);
    const Scratch steps = back.scratch({cols}, DType::f64);
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::GeodesicBackward<T>{.h = rows<const T>(h),
                                                .b = rows<const T>(b),
                                                .alpha = elements<const Wide<T>>(alpha),
                                                .alpha_count = alphas,
                                                .stats = stats_of(stats),
                                                .dy = rows<const T>(dy),
                                                .dh = dh.rows<T>(),
                                                .dh_into = dh.into,
                                                .db = db.rows<T>(),
                                                .db_into = db.into,
                                                .dalpha = dalpha.data<Wide<T>>(),
                                                .dalpha_into = dalpha.into,
                                                .partials = elements<double>(partials.tensor()),
                                                .steps = elements<double>(steps.tensor()),
                                                .weights = elements<double>(weights.tensor()),
                                                .rule = spec.rule,
                                                .alpha_mult = spec.alpha_mult});
    });
  });
  return y;
}

}  // namespace norma
