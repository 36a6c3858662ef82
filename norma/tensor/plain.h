// The few plain things done to whole tensors outside of ops: fill, copy, add, scale, look for NaN.
// Shapes must have the same count and columns; rows may be strided on either side.
#pragma once

#include "norma/tensor/tensor.h"

namespace norma {

void fill(const Tensor& to, double value);
void copy(const Tensor& from, const Tensor& to);
void add(const Tensor& from, const Tensor& to);                        // to += from
void add_scaled(const Tensor& from, double factor, const Tensor& to);  // to += factor·from
void scale(const Tensor& to, double factor);
/// Copies with conversion between f32 and f64.
void convert(const Tensor& from, const Tensor& to);
bool all_finite(const Tensor& tensor);

}  // namespace norma
