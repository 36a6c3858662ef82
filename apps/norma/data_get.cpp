// norma data get, norma data generate: text and tokenizers to begin with.
#include <cstdio>
#include <string>

#include "apps/norma/requests.h"
#include "norma/base/json_line.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/fetch/invented_text.h"
#include "norma/fetch/sets.h"
#include "norma/io/file.h"
#include "norma/io/sha256.h"

namespace norma::app {

int run_data_get(const DataGetRequest& request) {
  const fetch::Set& set = fetch::known_set(request.set);
  watch_stop_signals();
  fetch::GotSet got;
  try {
    got = fetch::get_set(io::real_file_system(),
                         set,
                         {.to = request.to,
                          .force = request.force,
                          .npm = {.deadline_s = request.timeout_s},
                          .tell = [](const std::string& what) {
                            std::fprintf(stderr, "norma: %s\n", what.c_str());
                          }});
  } catch (const fetch::StoppedError& stopped) {
    std::fprintf(stderr, "norma: %s\n", stopped.what());
    return 128 + stop_signal();
  }

  if (!request.json) {
    std::printf(
        "%s: %s\nlicence: %s\n%s:\n",
        set.name.c_str(),
        set.what.c_str(),
        set.licence.c_str(),
        got.was_there ? "was there already, and every byte is right" : "fetched and verified");
  }
  for (const fetch::SetFile& file : set.files) {
    const std::string path = io::join(got.folder, file.name);
    if (request.json) {
      JsonLine line;
      line.add("set", set.name)
          .add("path", path)
          .add("bytes", static_cast<Index>(file.bytes))
          .add("sha256", file.sha256)
          .add("licence", set.licence)
          .add("was_there", got.was_there);
      std::printf("%s\n", line.text().c_str());
    } else {
      std::printf("  %s  %s\n", path.c_str(), human_bytes(static_cast<double>(file.bytes)).c_str());
    }
  }
  return 0;
}

int run_data_generate(const DataGenerateRequest& request) {
  const std::string text = fetch::invented_text({.bytes = request.bytes, .seed = request.seed});
  io::replace_file(io::real_file_system(), request.out, text);
  if (request.json) {
    JsonLine line;
    line.add("path", request.out)
        .add("bytes", static_cast<Index>(text.size()))
        .add("seed", static_cast<Index>(request.seed))
        .add("sha256", io::sha256_of(text));
    std::printf("%s\n", line.text().c_str());
  } else {
    std::printf("%s: %s of invented stories, seed %llu\n",
                request.out.c_str(),
                human_bytes(static_cast<double>(text.size())).c_str(),
                static_cast<unsigned long long>(request.seed));
  }
  return 0;
}

}  // namespace norma::app
