// Where what can be fetched again is kept.
#pragma once

#include <string>

namespace norma::io {

/// $XDG_CACHE_HOME/norma or, where that is not set, ~/.cache/norma; an Error when the environment
/// names no home either. It need not exist.
std::string cache_folder();

}  // namespace norma::io
