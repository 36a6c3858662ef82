#include "norma/ops/mlp.h"

#include "norma/kernels/activation.h"
#include "norma/kernels/gemm.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "mlp";

struct Sizes {
  Index rows, in, inner, out;
};

/// Whether products do the activation themselves.
template <class Who, class T>
bool rides_on_products(const Sizes& s, Activation act) {
  const auto fits = [](Index size) { return size % kernels::kEpilogueMultiple == 0; };
  return std::is_same_v<Who, kernels::Cuda> && std::is_same_v<T, Bf16> &&
         act == Activation::gelu_tanh && fits(s.rows) && fits(s.in) && fits(s.inner) && fits(s.out);
}

template <class T>
kernels::Rows<T> wide_rows(T* data, const Sizes& s) {
  return {data, s.rows, s.inner, s.inner};
}

/// z = act(h), h = x·upᵀ
template <class T, class Who>
void go_up(
    Who who, const Sizes& s, kernels::Rows<const T> x, const T* up, T* h, T* z, Activation act) {
  kernels::Gemm<T> product{.trans_b = true,
                           .m = s.rows,
                           .n = s.inner,
                           .k = s.in,
                           .a = x.data,
                           .lda = x.stride,
                           .b = up,
                           .ldb = s.in,
                           .c = h,
                           .ldc = s.inner};
  if (rides_on_products<Who, T>(s, act)) {
    product.c = z;
    product.epilogue = kernels::Epilogue::gelu;
    product.inner = h;
    return kernels::run(who, product);
  }
  kernels::run(who, product);
  kernels::run(who, kernels::ActivationForward<T>{wide_rows<const T>(h, s), wide_rows(z, s), act});
}

/// dh = dz·act'(h), dz = dy·down. Where z is wanted again it takes the place of dz; where not,
/// products do the rest as well if they can.
template <class T, class Who>
void come_down(Who who,
               const Sizes& s,
               kernels::Rows<const T> dy,
               const T* down,
               T* h,
               T* dz,
               T* dh,
               bool z_again,
               Activation act) {
  kernels::Gemm<T> product{.m = s.rows,
                           .n = s.inner,
                           .k = s.out,
                           .a = dy.data,
                           .lda = dy.stride,
                           .b = down,
                           .ldb = s.inner,
                           .c = dz,
                           .ldc = s.inner};
  if (!z_again && rides_on_products<Who, T>(s, act)) {
    product.c = dh;
    product.epilogue = kernels::Epilogue::gelu_gradient;
    product.inner = h;
    return kernels::run(who, product);
  }
  kernels::run(who, product);
  kernels::run(
      who,
      kernels::ActivationBackward<T>{.x = wide_rows<const T>(h, s),
                                     .dy = wide_rows<const T>(dz, s),
                                     .dx = wide_rows(dh, s),
                                     .dx_into = Into::set,
                                     .kind = act,
                                     .y = z_again ? wide_rows(dz, s) : kernels::Rows<T>{}});
}

/// dw (m, n) = or += aᵀ·b, summed over rows
template <class T, class Who>
void gradient_of_weight(Who who,
                        kernels::Rows<const T> a,
                        kernels::Rows<const T> b,
                        WantedRows dw) {
  kernels::run(who,
               kernels::Gemm<T, Wide<T>>{.trans_a = true,
                                         .m = a.cols,
                                         .n = b.cols,
                                         .k = a.rows,
                                         .a = a.data,
                                         .lda = a.stride,
                                         .b = b.data,
                                         .ldb = b.stride,
                                         .c = dw.template data<Wide<T>>(),
                                         .ldc = b.cols,
                                         .beta = dw.into == Into::add ? 1.0 : 0.0});
}

void require_matrix(std::string_view name, Var x, Var weight, Index in, const char* letters) {
  require_float(kOp, name, weight);
  require_same_type(kOp, x, name, weight);
  if (weight.shape().rank() == 2 && weight.shape()[1] == in) return;
  throw ShapeError(kOp, name, say(letters, in), weight.shape().text());
}

}  // namespace

Var mlp(Var x, Var up, Var down, Activation act) {
  require_float(kOp, "x", x);
  require_matrix("up", x, up, x.shape().cols(), "(F, I) with I = ");
  require_matrix("down", x, down, up.shape()[0], "(O, F) with F = ");
  const Sizes s{x.shape().rows(), x.shape().cols(), up.shape()[0], down.shape()[0]};

  Tape& tape = x.tape();
  const Shape inner = x.shape().with_last(s.inner);
  const Var y = tape.output(x.shape().with_last(s.out), x.dtype());
  const Tensor h = tape.saved(inner, x.dtype());
  const bool again = tape.remaking();
  const Tensor kept = again ? Tensor{} : tape.saved(inner, x.dtype());
  {
    const Scratch passing = tape.scratch(again ? inner : Shape{1}, x.dtype());
    dispatch(kOp, x.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      T* z = elements<T>(again ? passing.tensor() : kept);
      go_up<T>(who, s, rows<const T>(x), elements<const T>(up), elements<T>(h), z, act);
      kernels::run(who,
                   kernels::Gemm<T>{.trans_b = true,
                                    .m = s.rows,
                                    .n = s.out,
                                    .k = s.inner,
                                    .a = z,
                                    .lda = s.inner,
                                    .b = elements<const T>(down),
                                    .ldb = s.inner,
                                    .c = elements<T>(y),
                                    .ldc = s.out});
    });
  }
  for (const Var v : {x, up, down}) tape.pin(v);
  tape.record(kOp, {x, up, down}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dup = wanted(b, up);
    const WantedRows ddown = wanted(b, down);
    const Scratch dh = b.scratch(inner, dy.dtype);
    const Scratch other = b.scratch(inner, dy.dtype);  // dz, then z again
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      const auto dys = rows<const T>(dy);
      const auto dhs = wide_rows<const T>(elements<const T>(dh.tensor()), s);
      come_down<T>(who,
                   s,
                   dys,
                   elements<const T>(down),
                   elements<T>(h),
                   elements<T>(other.tensor()),
                   elements<T>(dh.tensor()),
                   again,
                   act);
      if (ddown) {
        const T* z = elements<const T>(again ? other.tensor() : kept);
        gradient_of_weight<T>(who, dys, wide_rows<const T>(z, s), ddown);
      }
      if (dx) {
        const auto dxs = dx.template rows<T>();
        kernels::run(who,
                     kernels::Gemm<T>{.m = s.rows,
                                      .n = s.in,
                                      .k = s.inner,
                                      .a = dhs.data,
                                      .lda = dhs.stride,
                                      .b = elements<const T>(up),
                                      .ldb = s.in,
                                      .c = dxs.data,
                                      .ldc = dxs.stride,
                                      .beta = dx.into == Into::add ? 1.0 : 0.0});
      }
      if (dup) gradient_of_weight<T>(who, dhs, rows<const T>(x), dup);
    });
  });
  return y;
}

}  // namespace norma
