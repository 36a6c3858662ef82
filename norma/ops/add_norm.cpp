#include "norma/ops/add_norm.h"

#include <optional>

#include "norma/kernels/add_norm.h"
#include "norma/ops/norm_again.h"
#include "norma/ops/rms_norm_gradient.h"

namespace norma {

namespace {

/// The branch's norm with the rstd it saves; without rstd there is no such norm.
struct Branch {
  BranchNorm norm;
  Tensor rstd;

  explicit operator bool() const { return static_cast<bool>(rstd); }
  template <class T>
  kernels::BranchRms<T> arguments() const {
    return {.gain = elements<const Wide<T>>(norm.gain),
            .rstd = elements<Wide<T>>(rstd),
            .gain_offset = norm.gain_offset,
            .eps = norm.eps};
  }
  RmsNormSpec spec() const { return {.eps = norm.eps, .gain_offset = norm.gain_offset}; }
};

void require_sides(std::string_view op, Var x, Var b) {
  require_float(op, "x", x);
  require_float(op, "b", b);
  require_same_type(op, x, "b", b);
  require_shape(op, "b", b, x.shape());
}

Branch prepared(std::string_view op, Var x, Var b, const BranchNorm& norm) {
  require_sides(op, x, b);
  require_vector_type(op, x, "the branch's gain", norm.gain);
  require_shape(op, "the branch's gain", norm.gain, {x.shape().cols()});
  Tape& tape = x.tape();
  tape.pin(b);
  tape.pin(norm.gain);
  return {norm, tape.saved({x.shape().rows()}, wide(x.dtype()))};
}

AddNormResult joined(
    std::string_view op, Var x, Var b, Branch branch, Var gain, Var bias, const AddNormSpec& spec) {
  require_vector_type(op, x, "gain", gain);
  require_vector_type(op, x, "bias", bias);
  const Index cols = x.shape().cols();
  require_shape(op, "gain", gain, {cols});
  require_shape(op, "bias", bias, {cols});

  Tape& tape = x.tape();
  const Index row_count = x.shape().rows();
  const Var sum = tape.output(x.shape(), x.dtype());
  const Var y = tape.output(x.shape(), x.dtype());
  const Tensor rstd = tape.saved({row_count}, wide(x.dtype()));
  const bool centre = spec.norm == AddNormKind::layer;
  const Tensor mean = centre ? tape.saved({row_count}, wide(x.dtype())) : Tensor{};
  const Tensor shift = centre ? tape.saved({row_count}, wide(x.dtype())) : Tensor{};
  const auto make = [=](bool again) {
    dispatch(op, sum.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(
          who,
          kernels::AddNormForward<T>{.x = again ? kernels::Rows<const T>{} : rows<const T>(x),
                                     .b = again ? kernels::Rows<const T>{} : rows<const T>(b),
                                     .branch = branch.arguments<T>(),
                                     .gain = elements<const Wide<T>>(gain),
                                     .bias = elements<const Wide<T>>(bias),
                                     .sum = rows<T>(sum),
                                     .y = rows<T>(y),
                                     .mean = elements<Wide<T>>(mean),
                                     .shift = elements<Wide<T>>(shift),
                                     .rstd = elements<Wide<T>>(rstd),
                                     .scale = spec.scale,
                                     .gain_offset = spec.gain_offset,
                                     .eps = spec.eps});
    });
  };
  make(false);
  tape.pin(sum);
  tape.pin(gain);
  const auto rule = [=](Backward& back) {
    const Tensor dsum = back.has_grad(sum) ? back.grad(sum) : Tensor{};
    const Tensor dy = back.grad(y);
    const WantedRows dx = wanted(back, x);
    const WantedRows dgain = wanted(back, gain);
    const WantedRows dbias = wanted(back, bias);
    // The branch's norm reads t where the gradient of x lies, if that is t, or else aside.
    const bool goes_on = branch && (back.wants(b) || back.wants(branch.norm.gain));
    const bool in_dx = dx && dx.into == Into::set && spec.scale == 1;
    const bool is_aside = goes_on && !in_dx;
    const Scratch aside = back.scratch(is_aside ? dy.shape : Shape{1}, dy.dtype);
    WantedRows t;
    if (!branch) t = wanted(back, b);
    if (is_aside) t.grad = aside.tensor();
    const Scratch gain_partials =
        back.scratch(partial_shape(dy, cols, bool(dgain)), wide(dy.dtype));
    const Scratch bias_partials =
        back.scratch(partial_shape(dy, cols, bool(dbias)), wide(dy.dtype));
    std::optional<RmsNormGradient> of_branch;
    if (goes_on) of_branch.emplace(back, b, branch.norm.gain, branch.rstd, branch.spec(), dy);
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::RmsNormBackward<T> then{};
      if (of_branch) then = of_branch->of<T>(in_dx ? dx.grad : t.grad);
      run_norm_gradient(
          back,
          who,
          kernels::AddNormBackward<T>{.sum = rows<const T>(sum),
                                      .gain = elements<const Wide<T>>(gain),
                                      .mean = elements<const Wide<T>>(mean),
                                      .shift = elements<const Wide<T>>(shift),
                                      .rstd = elements<const Wide<T>>(rstd),
                                      .dsum = dsum ? rows<const T>(dsum) : kernels::Rows<const T>{},
                                      .dy = rows<const T>(dy),
                                      .dx = dx.rows<T>(),
                                      .dx_into = dx.into,
                                      .db = t.rows<T>(),
                                      .db_into = t.into,
                                      .dgain = dgain.data<Wide<T>>(),
                                      .dgain_into = dgain.into,
                                      .dbias = dbias.data<Wide<T>>(),
                                      .dbias_into = dbias.into,
                                      .gain_partials = elements<Wide<T>>(gain_partials.tensor()),
                                      .bias_partials = elements<Wide<T>>(bias_partials.tensor()),
                                      .branch = then,
                                      .scale = spec.scale,
                                      .gain_offset = spec.gain_offset},
          bias);
    });
  };
  tape.record_cheap(Remaking::norms, op, {x, b, gain, bias, branch.norm.gain}, {sum, y}, rule, [=] {
    make(true);
  });
  return {sum, y};
}

}  // namespace

AddNormResult add_norm(Var x, Var b, Var gain, Var bias, AddNormSpec spec) {
  constexpr std::string_view kOp = "add_norm";
  require_sides(kOp, x, b);
  return joined(kOp, x, b, {}, gain, bias, spec);
}

AddNormResult norm_add_norm(Var x, Var b, BranchNorm branch, Var gain, Var bias, AddNormSpec spec) {
  constexpr std::string_view kOp = "norm_add_norm";
  return joined(kOp, x, b, prepared(kOp, x, b, branch), gain, bias, spec);
}

Var norm_add(Var x, Var b, BranchNorm norm) {
  constexpr std::string_view kOp = "norm_add";
  const Branch branch = prepared(kOp, x, b, norm);
  const Var y = x.tape().output(x.shape(), x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::AddNormForward<T> a{};
    a.x = rows<const T>(x);
    a.b = rows<const T>(b);
    a.branch = branch.arguments<T>();
    a.sum = rows<T>(y);
    a.scale = 1;
    kernels::run(who, a);
  });
  x.tape().record(kOp, {x, b, norm.gain}, {y}, [=](Backward& back) {
    const Tensor dy = back.grad(y);
    back.pass(x, y);
    if (back.wants(b) || back.wants(norm.gain)) {
      rms_norm_rule(back, b, norm.gain, branch.rstd, dy, branch.spec());
    }
  });
  return y;
}

}  // namespace norma
