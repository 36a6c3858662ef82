#include "tests/battery/workshop.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include <sys/mount.h>
#include <unistd.h>

#include "norma/base/error.h"
#include "norma/base/threads.h"
#include "norma/train/run.h"
#include "tests/battery/small_run.h"

namespace norma::battery {

Workshop::Workshop() {
  write_text("book.txt", 400);
  std::ofstream(path("r.toml")) << R"(
model = { layers = 1, width = 8, heads = 2, context = 8 }
schedule = { name = "constant" }
train = { steps = 100000, batch = 2, log_every = 1, checkpoint_every = 1, threads = 1 }
)";
}

std::string Workshop::write_text(const std::string& name, int words) const {
  std::ofstream text(path(name));
  for (int i = 0; i < words; ++i) text << (Index{i} * (i % 1000) % 7 < 3 ? "sun " : "moon ");
  return path(name);
}

std::vector<std::string> Workshop::arguments(const std::string& run,
                                             const std::vector<std::string>& more) const {
  std::vector<std::string> all = {
      "train", path("r.toml"), "data.path=" + path("book.txt"), "--out", run};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

SmallDisk::SmallDisk(const std::string& options)
    : mounted_(::mount("none", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0) {}

SmallDisk::~SmallDisk() {
  if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
}

void SmallDisk::make_read_only() const {
  ::mount("none", folder_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr);
}

std::string metrics_of(const std::string& run) { return contents(run + "/metrics.jsonl"); }

Index last_step_of_metrics(const std::string& metrics) {
  const std::size_t at = metrics.rfind("{\"step\":");
  return at == std::string::npos ? 0 : std::stoll(metrics.substr(at + 8));
}

void pause_ms(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void train_as_program(io::FileSystem& disk,
                      const std::string& run,
                      const std::vector<std::string>& changes) {
  set_thread_count(1);
  const auto onlooker = [](const RunProgress& progress) {
    if (!progress.trouble.empty()) {
      std::fprintf(stderr, "norma: warning: %s\n", progress.trouble.c_str());
    }
    std::fprintf(stderr,
                 "step %lld/%lld\n",
                 static_cast<long long>(progress.step),
                 static_cast<long long>(progress.steps));
  };
  try {
    train_run(tiny_recipe(changes), tiny_data(), {.out = run}, onlooker, disk);
  } catch (const Error& error) {
    std::fprintf(stderr, "norma: error: %s\n", error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

}  // namespace norma::battery
