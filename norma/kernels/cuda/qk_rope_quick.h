// The form of qk_rope that training takes: heads of bf16 in packs of 16 bytes.
#pragma once

#include "norma/kernels/qk_rope.h"

namespace norma::kernels {

/// Each says whether it could; if not, nothing has happened. f32 is there for its digits and has no
/// such form.
bool run_quick(const QkRopeForward<Bf16>& a);
bool run_quick(const QkRopeBackward<Bf16>& a);
inline bool run_quick(const QkRopeForward<float>&) { return false; }
inline bool run_quick(const QkRopeBackward<float>&) { return false; }

}  // namespace norma::kernels
