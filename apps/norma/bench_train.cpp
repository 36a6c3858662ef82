// norma bench train: whole training steps (forward, backward, clip, optimizer) of a GPT on random
// tokens, against the best matrix product of the same process.
#include <algorithm>
#include <array>
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/train/trainer.h"

namespace norma::app {

namespace {

struct Case {
  const char* name;
  Index layers, heads, width, context, vocab, batch;
};

constexpr std::array kCases = {
    Case{"gpt-d128", 4, 4, 128, 64, 65, 12},
    Case{"gpt-d192", 6, 6, 192, 256, 4096, 16},
    Case{"gpt-d384", 6, 6, 384, 256, 65, 8},
};

const Case& find_case(const std::string& name) {
  std::vector<std::string> names;
  for (const Case& candidate : kCases) {
    if (name == candidate.name) return candidate;
    names.emplace_back(candidate.name);
  }
  const std::string near = nearest_word(name, names);
  throw RequestError(say("bench train: there is no case ",
                         name,
                         near.empty() ? "; there are gpt-d128, gpt-d192 and gpt-d384."
                                      : say(". Did you mean ", near, "?")));
}

Recipe recipe_of(const Case& chosen, const BenchTrainRequest& request) {
  Settings given;
  const auto set = [&](const char* key, Settings::Value value) {
    given.set({key, std::move(value), "bench"});
  };
  set("model.layers", chosen.layers);
  set("model.heads", chosen.heads);
  set("model.width", chosen.width);
  set("model.context", chosen.context);
  set("model.vocab", chosen.vocab);
  set("scheme.base", request.scheme);
  set("optim.name", request.optimizer);
  set("optim.lr", 1e-3);
  set("optim.clip_bound", 1.0);
  set("schedule.name", std::string("constant"));
  set("train.batch", chosen.batch);
  return read_recipe(given);
}

void print_profile(const Profile& profile, int steps, double step_ms) {
  std::vector<Profile::Row> rows = profile.rows();
  std::sort(rows.begin(), rows.end(), [](const Profile::Row& a, const Profile::Row& b) {
    return a.forward_s + a.backward_s > b.forward_s + b.backward_s;
  });
  double seen = 0;
  std::printf(
      "%-16s %10s %12s %13s %7s\n", "op", "calls/step", "forward ms", "backward ms", "share");
  for (const Profile::Row& row : rows) {
    const double forward = row.forward_s * 1e3 / steps;
    const double backward = row.backward_s * 1e3 / steps;
    seen += forward + backward;
    std::printf("%-16s %10.0f %12.2f %13.2f %6.1f%%\n",
                std::string(row.op).c_str(),
                static_cast<double>(row.calls) / steps,
                forward,
                backward,
                100 * (forward + backward) / step_ms);
  }
  std::printf("%-16s %10s %12s %13.2f %6.1f%%\n",
              "clip, optimizer",
              "",
              "",
              step_ms - seen,
              100 * (step_ms - seen) / step_ms);
}

}  // namespace

int run_bench_train(const BenchTrainRequest& request) {
  const Case& chosen = find_case(request.name);
  if (request.threads > 0) set_thread_count(request.threads);
  constexpr double kSeconds = 6;
  constexpr int kWarmup = 3;

  // The peak is taken before and after, so that a busy moment does not flatter the efficiency.
  double peak = checks::measure_gemm_peak();
  Trainer trainer(recipe_of(chosen, request), random_tokens(chosen.vocab, 1 << 20));
  double loss = 0;
  for (int i = 0; i < kWarmup; ++i) loss = trainer.step().loss;
  Profile profile;
  if (request.profile) trainer.tape().set_profile(&profile);
  std::vector<double> seconds;
  const Stopwatch total;
  while (request.steps > 0 ? static_cast<int>(seconds.size()) < request.steps
                           : (total.seconds() < kSeconds || seconds.size() < 5)) {
    const Stopwatch watch;
    loss = trainer.step().loss;
    seconds.push_back(watch.seconds());
  }
  const auto count = static_cast<int>(seconds.size());
  peak = std::max(peak, checks::measure_gemm_peak());
  const double step_s = median(std::move(seconds));
  const double gflops = trainer.flops_per_step() / step_s * 1e-9;

  JsonLine line;
  line.add("case", request.name)
      .add("scheme", request.scheme)
      .add("optimizer", request.optimizer)
      .add("ms_step", step_s * 1e3)
      .add("tokens_per_s", static_cast<double>(trainer.tokens_per_step()) / step_s)
      .add("gflops", gflops)
      .add("gemm_peak_gflops", peak)
      .add("efficiency", gflops / peak)
      .add("steps", count)
      .add("threads", thread_count())
      .add("parameters", trainer.params().count())
      .add("arena_bytes", static_cast<Index>(trainer.tape().arena().capacity()))
      .add("loss", loss);
  if (request.json) {
    std::puts(line.text().c_str());
    return 0;
  }
  std::printf("%s, %s, %s: %lld parameters, %lld tokens a step, %d threads, median of %d steps\n",
              chosen.name,
              request.scheme.c_str(),
              request.optimizer.c_str(),
              static_cast<long long>(trainer.params().count()),
              static_cast<long long>(trainer.tokens_per_step()),
              thread_count(),
              count);
  std::printf(
      "ms_step          %.2f\ntokens_per_s     %.0f\ngflops           %.1f\n"
      "gemm_peak_gflops %.1f\nefficiency       %.3f\n",
      step_s * 1e3,
      static_cast<double>(trainer.tokens_per_step()) / step_s,
      gflops,
      peak,
      gflops / peak);
  if (request.profile) print_profile(profile, count, step_s * 1e3);
  return 0;
}

}  // namespace norma::app
