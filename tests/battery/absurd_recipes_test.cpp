// C1: absurd recipes. Each gives a plan or a sentence, soon and in little memory.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <new>
#include <random>

#include <gtest/gtest.h>

#include "norma/base/build_info.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/train/forecast.h"
#include "norma/train/run.h"

namespace norma::battery {
namespace {

using Random = std::mt19937_64;

/// Every declared setting with a sound value, from the structs themselves.
std::vector<std::string> declared_keys() {
  std::vector<std::string> keys;
  const auto collect = [&](const char* table, auto spec) {
    spec.fields([&](std::string_view name, auto&&...) { keys.push_back(say(table, ".", name)); });
  };
  collect("model", ModelSpec{});
  collect("optim", OptimSpec{});
  collect("schedule", ScheduleSpec{});
  collect("data", DataSpec{});
  collect("train", TrainSpec{});
  for (const char* key : {"scheme.base",
                          "scheme.attn_pre",
                          "scheme.q.eps",
                          "scheme.name",
                          "scheme.scales.embedding",
                          "scheme.decay",
                          "scheme.attn_residual"}) {
    keys.emplace_back(key);
  }
  return keys;
}

std::string absurd_value(Random& random, const std::string& megabyte) {
  static constexpr const char* kValues[] = {"0",
                                            "-1",
                                            "1",
                                            "2",
                                            "3",
                                            "7",
                                            "8",
                                            "2147483648",
                                            "4294967296",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "9223372036854775808",
                                            "1048576",
                                            "16777216",
                                            "1024",
                                            "4096",
                                            "nan",
                                            "-nan",
                                            "inf",
                                            "-inf",
                                            "1e308",
                                            "-1e308",
                                            "1e-320",
                                            "0.5",
                                            "0.99",
                                            "\"\"",
                                            "\"f32\"",
                                            "\"adamw\"",
                                            "\"muon\"",
                                            "\"rope\"",
                                            "\"swiglu\"",
                                            "\"rms\"",
                                            "\"bn\"",
                                            "\"cosine\"",
                                            "\"1/sqrt(d)\"",
                                            "\"((((((((\"",
                                            "\"1e308*1e308\"",
                                            "\"L/0\"",
                                            "\"\\u0000\"",
                                            "\"γ\"",
                                            "true",
                                            "false",
                                            "[]",
                                            "[1, 2]",
                                            "[1e308, nan]",
                                            "[[]]",
                                            "{}",
                                            "{ norm = \"bn\", statistics = \"all\" }",
                                            "{ norm = \"ln\" }",
                                            "1979-05-27",
                                            "0x7fffffffffffffff",
                                            "\"nanogpt\"",
                                            "\"/dev/zero\""};
  if (random() % 64 == 0) return say("\"", megabyte, "\"");
  return kValues[random() % std::size(kValues)];
}

/// Mostly sound with a few absurd values; sometimes with unknown keys or contradictions.
std::string absurd_recipe(Random& random) {
  static const std::vector<std::string> kKeys = declared_keys();
  static const std::vector<std::string> kSchemes = scheme_names();
  static const std::string kMegabyte(900'000, 'x');
  std::string toml;
  std::vector<std::string> used;
  const auto put = [&](const std::string& key, const std::string& value) {
    for (const std::string& other : used) {
      if (other == key || other.starts_with(key + ".") || key.starts_with(other + ".")) return;
    }
    used.push_back(key);
    toml += say(key, " = ", value, "\n");
  };
  for (auto count = random() % 4; count > 0; --count) {
    put(kKeys[random() % kKeys.size()], absurd_value(random, kMegabyte));
  }
  if (random() % 2 == 0) {  // sizes that are allowed one by one and absurd together
    static constexpr const char* kSizes[] = {"1", "2", "64", "1024", "4096", "1048576", "16777216"};
    for (const char* key : {"model.layers",
                            "model.width",
                            "model.heads",
                            "model.head_width",
                            "model.ffn_width",
                            "model.context",
                            "model.vocab",
                            "train.batch",
                            "train.micro_batch"}) {
      if (random() % 3 == 0) put(key, kSizes[random() % std::size(kSizes)]);
    }
  }
  if (random() % 8 == 0) put(say(kKeys[random() % kKeys.size()], "x"), "1");
  if (random() % 64 == 0) put(kMegabyte, "1");
  put("scheme.base", say("\"", kSchemes[random() % kSchemes.size()], "\""));
  if (random() % 32 == 0) toml.resize(random() % (toml.size() + 1));
  return toml;
}

struct Counts {
  int plans = 0;
  int refused = 0;
  int broken = 0;  // neither a plan nor a sentence, or not soon
  double slowest_s = 0;
  std::size_t grown = 0;
  std::string first_broken;
};

using Plan = std::function<void(const Recipe&)>;
// A sanitizer makes everything slower and keeps what was freed.
constexpr bool kSanitized = !std::string_view(build::kSanitizers).empty();
constexpr double kSoon = kSanitized ? 1 : 0.1;  // seconds of CPU
constexpr std::size_t kLittle = std::size_t{kSanitized ? 1024 : 64} << 20;

double planning_s(const std::string& toml, const Plan& plan, Counts& counts, std::string& wrong) {
  const std::clock_t start = std::clock();  // of this process: others may be busy too
  try {
    plan(read_recipe(Settings::from_toml(toml, "absurd.toml")));
    ++counts.plans;
  } catch (const RequestError& error) {
    ++counts.refused;
    if (std::string_view(error.what()).size() > 2000) wrong = "a sentence without end";
  } catch (const std::exception& error) {
    wrong = error.what();
  }
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void try_one(const std::string& toml, const Plan& plan, Counts& counts) {
  std::string wrong;
  double took_s = planning_s(toml, plan, counts, wrong);
  // Others may have emptied the caches or taken the other half of the core: the best of some
  // counts.
  for (int again = 0; again < 4 && took_s > kSoon; ++again) {
    Counts ignored;
    took_s = std::min(took_s, planning_s(toml, plan, ignored, wrong));
  }
  if (wrong.empty() && took_s > kSoon) wrong = say("took ", took_s, " s");
  counts.slowest_s = std::max(counts.slowest_s, took_s);
  if (wrong.empty()) return;
  if (counts.broken++ == 0) counts.first_broken = say(wrong, " for\n", toml.substr(0, 1000));
}

Counts try_many(int count, const Plan& plan) {
  Random random(4);
  Counts counts;
  try_one("", plan, counts);  // what the program itself takes
  counts = {};
  const std::size_t before = peak_process_bytes();
  for (int i = 0; i < count; ++i) try_one(absurd_recipe(random), plan, counts);
  counts.grown = peak_process_bytes() - before;
  return counts;
}

void expect_plan_or_sentence(int count) {
  const Counts counts = try_many(count, [](const Recipe& recipe) { plan_memory(recipe, {}); });
  EXPECT_EQ(counts.broken, 0) << counts.first_broken;
  EXPECT_GT(counts.plans, count / 10);  // else the test would not test
  EXPECT_GT(counts.refused, count / 4);
  EXPECT_LT(counts.grown, kLittle);
  std::printf("C1: %d recipes, %d planned, %d refused; slowest %.0f ms, %.0f MiB\n",
              count,
              counts.plans,
              counts.refused,
              counts.slowest_s * 1e3,
              static_cast<double>(counts.grown) / (1 << 20));
}

TEST(AbsurdRecipes, GiveAPlanOrASentence) { expect_plan_or_sentence(2000); }
TEST(SlowAbsurdRecipes, GiveAPlanOrASentence) { expect_plan_or_sentence(20000); }

// Twins: a depth that nobody bounds, and an error that is not for people.
TEST(AbsurdRecipesTwin, ADepthWithoutABoundIsCaught) {
  const auto deep = [](const Recipe& recipe) {
    Recipe changed = recipe;
    changed.model.layers = 32768;
    plan_memory(changed, {});
  };
  Counts counts;
  try_one("", deep, counts);
  EXPECT_EQ(counts.broken, 1);
}
TEST(AbsurdRecipesTwin, AnErrorThatIsNoSentenceIsCaught) {
  const auto careless = [](const Recipe& recipe) {
    if (recipe.model.vocab > (1 << 20)) throw std::bad_alloc();
    plan_memory(recipe, {});
  };
  Counts counts;
  try_one("model.vocab = 16777216\n", careless, counts);
  EXPECT_EQ(counts.broken, 1);
}

}  // namespace
}  // namespace norma::battery
