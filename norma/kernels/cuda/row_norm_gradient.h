// The gradient of a norm of whole rows in the form that training takes: bf16 in packs of 16 bytes.
#pragma once

#include "norma/kernels/add_norm.h"
#include "norma/kernels/layer_norm.h"

namespace norma::kernels {

/// The gradient of add_norm with that of the branch's norm, or of a norm by itself: one of a sum
/// that is x, whose dsum is what is added to. Says whether it could; if not, nothing has happened.
/// f32 is there for its digits and has no such form.
bool run_quick(const AddNormBackward<Bf16>& a);
inline bool run_quick(const AddNormBackward<float>&) { return false; }

/// The gradient of a norm by itself in the words of add_norm's: what dx holds and is added to takes
/// the place of dsum.
template <class T>
AddNormBackward<T> as_add_norm(const LayerNormBackward<T>& a) {
  const bool adds = a.dx && a.dx_into == Into::add;
  return {
      .sum = a.x,
      .gain = a.gain,
      .mean = a.mean,
      .shift = a.shift,
      .rstd = a.rstd,
      .dsum = adds ? Rows<const T>{a.dx.data, a.dx.rows, a.dx.cols, a.dx.stride} : Rows<const T>{},
      .dy = a.dy,
      .dx = a.dx,
      .dx_into = Into::set,
      .db = {},
      .db_into = Into::set,
      .dgain = a.dgain,
      .dgain_into = a.dgain_into,
      .dbias = a.dbias,
      .dbias_into = a.dbias_into,
      .gain_partials = a.gain_partials,
      .bias_partials = a.bias_partials,
      .branch = {},
      .scale = 1,
      .gain_offset = a.gain_offset};
}
template <class T>
AddNormBackward<T> as_add_norm(const RmsNormBackward<T>& a) {
  return as_add_norm(LayerNormBackward<T>{.x = a.x,
                                          .gain = a.gain,
                                          .mean = nullptr,
                                          .shift = nullptr,
                                          .rstd = a.rstd,
                                          .dy = a.dy,
                                          .dx = a.dx,
                                          .dx_into = a.dx_into,
                                          .dgain = a.dgain,
                                          .dgain_into = a.dgain_into,
                                          .dbias = nullptr,
                                          .dbias_into = Into::set,
                                          .gain_partials = a.partials,
                                          .bias_partials = nullptr,
                                          .group = a.group,
                                          .gain_per_column = a.gain_per_column,
                                          .gain_offset = a.gain_offset});
}

}  // namespace norma::kernels
