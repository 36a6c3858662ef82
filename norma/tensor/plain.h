// The few plain things done to whole tensors outside of ops: fill, copy, add, scale, look for NaN.
// Shapes must have the same count and columns; rows may be strided on either side. On a GPU they
// are queued; copy() and convert() also move between devices, and then wait.
#pragma once

#include "norma/tensor/buffer.h"
#include "norma/tensor/tensor.h"

namespace norma {

void fill(const Tensor& to, double value);
void copy(const Tensor& from, const Tensor& to);
void add(const Tensor& from, const Tensor& to);                        // to += from
void add_scaled(const Tensor& from, double factor, const Tensor& to);  // to += factor·from
void scale(const Tensor& to, double factor);
/// Copies with conversion between types.
void convert(const Tensor& from, const Tensor& to);
/// The same numbers in contiguous memory of the CPU, still in their type.
OwnedTensor host_copy(const Tensor& from);
bool all_finite(const Tensor& tensor);

}  // namespace norma
