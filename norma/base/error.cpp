#include "norma/base/error.h"

#include "norma/base/text.h"

namespace norma {

ShapeError::ShapeError(std::string_view op,
                       std::string_view what,
                       std::string_view wanted,
                       std::string_view got)
    : RequestError(say(op, ": ", what, " must be ", wanted, ", got ", got, ".")) {}

}  // namespace norma
