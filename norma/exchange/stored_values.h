// Numbers as files store them: f64, f32, f16 and bf16, each to and from a double.
#pragma once

#include <cstddef>

#include "norma/io/stored_type.h"

namespace norma::exchange {

/// Whether weights may be stored as this type.
bool holds_weights(const io::StoredType& type);

/// The value of the element that starts at `at`, which need not be aligned.
double stored_value(const io::StoredType& type, const std::byte* at);

/// Stores a value, rounded to the nearest that the type has, to the even one of two. Beyond the
/// type's range it becomes infinite.
void store_value(const io::StoredType& type, double value, std::byte* at);

}  // namespace norma::exchange
