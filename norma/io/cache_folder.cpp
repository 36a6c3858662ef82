#include "norma/io/cache_folder.h"

#include <cstdlib>
#include <string_view>

#include "norma/base/error.h"
#include "norma/io/file.h"

namespace norma::io {

std::string cache_folder() {
  // The rules of XDG: a path that is not absolute counts as not set.
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return join(cache, "norma");
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    throw Error("there is no cache folder: neither XDG_CACHE_HOME nor HOME is set. Set one.");
  }
  return join(home, ".cache/norma");
}

}  // namespace norma::io
