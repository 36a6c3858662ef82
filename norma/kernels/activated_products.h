// Products that do an activation, or its gradient, on each tile before it is stored: what the
// activation reads and makes passes through memory once. Cuda in bf16 on Hopper alone (run_fused).
#pragma once

#include "norma/kernels/gated.h"

namespace norma::kernels {

/// dz = dy·down, dh = dz·act'(h), z = act(h).
template <class T>
struct ActivationGradientProduct {
  Rows<const T> dy;  // (rows, O)
  const T* down;     // (O, F)
  Rows<const T> h;   // (rows, F)
  Rows<T> dh;
  Rows<T> z;  // data null: not wanted
  Activation act;
};

/// [u, g] = x·upᵀ, and then y of them.
template <class T>
struct GatedProduct {
  Rows<const T> x;  // (rows, I)
  const T* up;      // (2F, I): the rows of u, then those of g
  Rows<T> u;        // (rows, F); the same memory as then.u
  Rows<T> g;
  GatedForward<T> then;
};

/// dy = dout·down, then the gradients of it; y is made again beside them.
template <class T>
struct GatedGradientProduct {
  Rows<const T> dout;     // (rows, O)
  const T* down;          // (O, F)
  GatedBackward<T> then;  // its dy is the product and not looked at; du and dg are set
  Rows<T> y;              // data null: not wanted
};
/// Rows that then.partials_u and then.partials_v must have for this.
constexpr Index product_partials(Index rows) { return (rows + 63) / 64; }

template <class T>
bool run(Cuda, const ActivationGradientProduct<T>& a);
template <class T>
bool run(Cuda, const GatedProduct<T>& a);
template <class T>
bool run(Cuda, const GatedGradientProduct<T>& a);

}  // namespace norma::kernels
