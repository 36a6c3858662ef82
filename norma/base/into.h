// Whether a result replaces what a buffer holds or is added to it. Said in every call that writes
// a gradient, never left to habit.
#pragma once

#include <cstdint>

namespace norma {

enum class Into : std::uint8_t { set, add };

}  // namespace norma
