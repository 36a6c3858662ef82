#include "norma/fetch/npm.h"

#include <algorithm>

#include "norma/base/text.h"
#include "norma/fetch/child.h"
#include "norma/io/file.h"
#include "norma/io/temporary_folder.h"

namespace norma::fetch {

namespace {

constexpr std::string_view kAdvice =
    "Check the network and npm's settings (npm config get registry), ";

/// The line of npm's words that says most: the first one after the codes and numbers.
std::string telling_line(std::string_view said) {
  while (!said.empty()) {
    const std::size_t end = std::min(said.find('\n'), said.size());
    std::string_view line = said.substr(0, end);
    said.remove_prefix(std::min(end + 1, said.size()));
    for (const std::string_view lead : {"npm ", "ERR! ", "error "}) {
      if (line.starts_with(lead)) line.remove_prefix(lead.size());
    }
    const bool numbers =
        line.starts_with("code ") || line.starts_with("errno ") || line.starts_with("syscall ");
    while (line.ends_with('.')) line.remove_suffix(1);
    if (!line.empty() && !numbers) return std::string(line);
  }
  return "it said nothing";
}

void run_npm(const PackageRequest& package, const std::string& folder, const NpmOptions& options) {
  const ChildEnd end = run_child({.program = options.program,
                                  .arguments = {"pack",
                                                package.name,
                                                "--ignore-scripts",
                                                "--loglevel=error",
                                                "--no-update-notifier",
                                                "--fetch-retries=1",
                                                "--fetch-timeout=30000"},
                                  .folder = folder,
                                  .deadline_s = options.deadline_s});
  switch (end.kind) {
    case ChildEnd::Kind::not_found:
      throw Error(say("fetching ",
                      package.name,
                      " needs npm, which is not on the PATH. Install it (Debian: apt-get install "
                      "--no-install-recommends npm), ",
                      package.otherwise,
                      "."));
    case ChildEnd::Kind::too_late:
      throw Error(say("npm did not fetch ",
                      package.name,
                      " within ",
                      options.deadline_s,
                      " s; the registry does not answer. ",
                      kAdvice,
                      package.otherwise,
                      "."));
    case ChildEnd::Kind::stopped:
      throw StoppedError(say("stopped while fetching ", package.name, "; nothing of it was kept."));
    case ChildEnd::Kind::exited:
      break;
  }
  if (end.code != 0) {
    throw Error(say("npm could not fetch ",
                    package.name,
                    " (exit code ",
                    end.code,
                    "): ",
                    telling_line(end.said),
                    ". ",
                    kAdvice,
                    package.otherwise,
                    "."));
  }
}

}  // namespace

Members fetch_package(io::FileSystem& system,
                      const PackageRequest& package,
                      const std::string& beside,
                      const NpmOptions& options) {
  const io::TemporaryFolder folder(system, beside);
  run_npm(package, folder.path(), options);
  std::string archive;
  for (const std::string& name : io::list_folder(system, folder.path())) {
    if (name.ends_with(".tgz")) archive = io::join(folder.path(), name);
  }
  if (archive.empty()) {
    throw Error(say("npm ended well but left no archive of ",
                    package.name,
                    ". Try it by hand (npm pack ",
                    package.name,
                    "), ",
                    package.otherwise,
                    "."));
  }
  try {
    return read_tar(*io::open_source(system, archive), package.wants);
  } catch (const io::FileError&) {
    throw;
  } catch (const Error& error) {
    throw Error(say("what npm fetched as ", package.name, " is not sound: ", error.what()));
  }
}

}  // namespace norma::fetch
