#include "norma/train/resume_rule.h"

#include <algorithm>
#include <array>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

// Data are compared by their digest, wherever they lie.
constexpr std::array<std::string_view, 18> kFree = {"data.path",
                                                    "data.format",
                                                    "train.eval_every",
                                                    "train.eval_tokens",
                                                    "train.log_every",
                                                    "train.angle_every",
                                                    "train.checkpoint_every",
                                                    "train.keep_last",
                                                    "train.keep_every",
                                                    "train.sample_every",
                                                    "train.sample_tokens",
                                                    "train.sample_prompt",
                                                    "train.samples",
                                                    "train.threads",
                                                    "train.micro_batch",
                                                    "train.recompute",
                                                    "train.device",
                                                    "train.init_from"};

bool looks_ahead(const ScheduleSpec& schedule) {
  return schedule.name != ScheduleName::constant && schedule.name != ScheduleName::inverse_sqrt;
}

bool may_differ(std::string_view key, const Recipe& now) {
  if (key == "train.steps") return !looks_ahead(now.schedule);
  return std::find(kFree.begin(), kFree.end(), key) != kFree.end();
}

std::string value_of(const Settings& settings, std::string_view key) {
  const Settings::Entry* entry = settings.find(key);
  return entry == nullptr ? "not set" : to_toml(entry->value);
}

}  // namespace

void require_same_run(const std::string& run, const Recipe& started, const Recipe& now) {
  const Settings before = used_settings(started);
  const Settings after = used_settings(now);
  std::vector<std::string> keys;
  for (const Settings* settings : {&before, &after}) {
    for (const Settings::Entry& entry : settings->entries()) {
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
    }
  }
  constexpr std::size_t kMostNamed = 10;
  std::string differing;
  std::size_t count = 0;
  const bool other_scheme = started.scheme.name != now.scheme.name;
  if (other_scheme) {  // its name says more than its sites
    differing = say("the scheme was ", started.scheme.name, ", is ", now.scheme.name);
    ++count;
  }
  for (const std::string& key : keys) {
    if (other_scheme && key.starts_with("scheme.")) continue;
    const std::string was = value_of(before, key);
    const std::string is = value_of(after, key);
    if (was == is || may_differ(key, now)) continue;
    if (++count <= kMostNamed) {
      differing += say(differing.empty() ? "" : "; ", key, " was ", was, ", is ", is);
    }
  }
  if (count == 0) return;
  if (count > kMostNamed) differing += say("; and ", count - kMostNamed, " more");
  throw RequestError(say(run,
                         " was started with another recipe: ",
                         differing,
                         ". Resume it with its own, or start from its weights in another folder "
                         "with train.init_from=",
                         run,
                         "."));
}

}  // namespace norma
