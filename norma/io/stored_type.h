// The element types a safetensors file may name.
#pragma once

#include <cstdint>
#include <string_view>

#include "norma/io/file_system.h"

namespace norma::io {

struct StoredType {
  std::string_view word;    // "F32"
  std::uint32_t bits;       // of one element
  std::uint32_t alignment;  // bytes; orders the tensors of a file, so that each lies aligned
};

/// The type of that name, or null. The types live as long as the program.
const StoredType* find_stored_type(std::string_view word);

/// How many of the values are NaN or infinite: F64, F32, F16 and BF16 are looked at, other types
/// have 0. `values` holds whole elements and need not be aligned.
std::uint64_t count_non_finite(const StoredType& type, Bytes values);

}  // namespace norma::io
