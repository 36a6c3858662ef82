#include "norma/io/run_lock.h"

#include <array>
#include <ctime>

#include <unistd.h>

#include "norma/base/text.h"
#include "norma/io/strict_json.h"

namespace norma::io {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t length =
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return {text.data(), length};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "an unnamed host";
  return name.data();
}

std::string holder_text() {
  return say("{\"pid\": ",
             ::getpid(),
             ", \"host\": ",
             json_string(host_name()),
             ", \"since\": ",
             json_string(utc_now()),
             "}\n");
}

// Who holds the lock, as far as the file tells: it is empty for a moment after locking.
std::string holder_of(const File& file) {
  constexpr std::uint64_t kMaxHolder = 4096;
  try {
    const std::string text = file.text(kMaxHolder);
    std::string pid;
    std::string host;
    std::string since;
    StrictJson json(file.path(), text);
    json.object([&](const std::string& key) {
      if (key == "pid") {
        pid = to_text(json.integer());
      } else {
        (key == "host" ? host : since) = json_string(json.string());
      }
    });
    return say("process ", pid, " on host ", host, " since ", since);
  } catch (const Error&) {
    return "another process";
  }
}

}  // namespace

RunLock::RunLock(FileSystem& system, std::string folder)
    : folder_(std::move(folder)), file_(system, join(folder_, ".lock"), OpenAs::shared) {
  if (!file_.try_lock()) {
    throw Error(say(folder_,
                    " is in use by ",
                    holder_of(file_),
                    ". Wait for it, stop it, or choose another folder."));
  }
  file_.truncate(0);
  write_text(file_, holder_text());
}

}  // namespace norma::io
