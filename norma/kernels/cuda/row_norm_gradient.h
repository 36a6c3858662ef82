// The gradient of a norm of whole rows in the form that training takes: bf16 in packs of 16 bytes.
#pragma once

#include <type_traits>

#include "norma/kernels/add_norm.h"
#include "norma/kernels/layer_norm.h"
#include "norma/kernels/norm_again.h"

namespace norma::kernels {

/// The gradient of add_norm with that of the branch's norm, or of a norm by itself: one of a sum
/// that is x, whose dsum is what is added to. Says whether it could; if not, nothing has happened.
/// f32 is there for its digits and has no such form.
bool run_quick(const AddNormBackward<Bf16>& a);
inline bool run_quick(const AddNormBackward<float>&) { return false; }
/// The same with the norm itself.
bool run_quick(const NormAgain<AddNormBackward, Bf16>& a);

/// The gradient of a norm by itself in the words of add_norm's: what dx holds and is added to takes
/// the place of dsum.
template <class T, template <class> class Norm>
AddNormBackward<T> as_add_norm(const Norm<T>& a) {
  constexpr bool kCentred = std::is_same_v<Norm<T>, LayerNormBackward<T>>;
  AddNormBackward<T> of{};
  of.sum = a.x;
  of.gain = a.gain;
  of.rstd = a.rstd;
  if (a.dx_into == Into::add) of.dsum = {a.dx.data, a.dx.rows, a.dx.cols, a.dx.stride};
  of.dy = a.dy;
  of.dx = a.dx;
  of.dx_into = Into::set;
  of.dgain = a.dgain;
  of.dgain_into = a.dgain_into;
  of.scale = 1;
  of.gain_offset = a.gain_offset;
  if constexpr (kCentred) {
    of.mean = a.mean;
    of.shift = a.shift;
    of.dbias = a.dbias;
    of.dbias_into = a.dbias_into;
    of.gain_partials = a.gain_partials;
    of.bias_partials = a.bias_partials;
  } else {
    of.gain_partials = a.partials;
  }
  return of;
}

}  // namespace norma::kernels
