// norma bench train: whole training steps (forward, backward, clip, optimizer) of a GPT on random
// tokens; on a CPU, against the best matrix product of the same process.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/device/device.h"
#include "norma/device/energy.h"
#include "norma/train/run.h"
#include "norma/train/trainer.h"

namespace norma::app {

namespace {

struct Case {
  const char* name;
  Index layers, heads, width, context, vocab, batch;
  const char* scheme = "pre-ln";
  const char* ffn = nullptr;  // absent: the scheme's
  const char* recompute = "auto";
};

constexpr std::array kCases = {
    Case{"gpt-d128", 4, 4, 128, 64, 65, 12},
    Case{"gpt-d192", 6, 6, 192, 256, 4096, 16},
    Case{"gpt-d384", 6, 6, 384, 256, 65, 8},
    // For a GPU: the recipes of these models in batches that fill one (bench/peers/torch_gpu.py).
    Case{"gpt2-124m", 12, 12, 768, 1024, 50304, 64, "pre-ln", "gelu_tanh"},
    Case{"dnt-124m", 12, 12, 768, 1024, 50304, 64, "dnt", "gelu_tanh"},
    Case{"gpt2-774m", 36, 20, 1280, 1024, 50304, 16, "pre-ln", "gelu_tanh", "cheap"},
    Case{"ngpt-0.5b", 24, 16, 1024, 1024, 50304, 16, "ngpt"},
    Case{"prerms-0.5b", 24, 16, 1024, 1024, 50304, 16, "pre-rms"},
    Case{"ngpt-0.5b-8k", 24, 16, 1024, 8192, 50304, 2, "ngpt"},
};

const Case& find_case(const std::string& name) {
  std::vector<std::string> names;
  for (const Case& candidate : kCases) {
    if (name == candidate.name) return candidate;
    names.emplace_back(candidate.name);
  }
  const std::string near = nearest_word(name, names);
  std::string all;
  for (const std::string& known : names) all += say(all.empty() ? "" : ", ", known);
  throw RequestError(
      say("bench train: there is no case ",
          name,
          near.empty() ? say("; there are ", all, ".") : say(". Did you mean ", near, "?")));
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
  set("scheme.base", request.scheme.empty() ? std::string(chosen.scheme) : request.scheme);
  if (chosen.ffn != nullptr) set("model.ffn", std::string(chosen.ffn));
  set("optim.name", request.optimizer);
  set("optim.lr", 1e-3);
  set("optim.clip_bound", 1.0);
  set("schedule.name", std::string("constant"));
  set("train.batch", chosen.batch);
  set("train.recompute", std::string(chosen.recompute));
  set("train.device", request.device);
  const char* usual = request.device == "cpu" ? "f32" : "bf16";
  set("train.precision", request.dtype.empty() ? std::string(usual) : request.dtype);
  for (const std::string& assignment : request.assignments) given.set_assignment(assignment);
  return read_recipe(given);
}

/// Most memory in use: of the process, or of the GPU beyond what it takes to be used at all. Taken
/// as bench/peers takes it, by what the driver has left.
class PeakMemory {
 public:
  explicit PeakMemory(bool on_gpu)
      : on_gpu_(on_gpu), before_(on_gpu ? device::info().free_bytes : 0) {}
  void look() {
    if (!on_gpu_) return;
    const std::size_t left = device::info().free_bytes;
    most_ = std::max(most_, before_ - std::min(before_, left));
  }
  Index bytes() const { return static_cast<Index>(on_gpu_ ? most_ : peak_process_bytes()); }

 private:
  bool on_gpu_;
  std::size_t before_;
  std::size_t most_ = 0;
};

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
  const Recipe recipe = recipe_of(chosen, request);
  const bool on_gpu = request.device != "cpu";
  if (on_gpu && request.profile) {
    throw RequestError(
        "bench train: --profile sees ops as the host queues them, and a GPU replays whole steps; "
        "bench/device.sh breakdown says what one consists of.");
  }

  // The peak is taken before and after, so that a busy moment does not flatter the efficiency. What
  // a GPU can do is for `norma bench kernels` to say.
  double peak = on_gpu ? 0 : checks::measure_gemm_peak();
  const Stopwatch start;
  PeakMemory memory(on_gpu);
  Trainer trainer(recipe, random_tokens(chosen.vocab, 1 << 20));
  double loss = trainer.step().loss;
  const double first_step_s = start.seconds();
  for (int i = 1; i < kWarmup; ++i) loss = trainer.step().loss;
  Profile profile;
  if (request.profile) trainer.tape().set_profile(&profile);
  std::vector<double> seconds;
  std::optional<device::EnergyMeter> energy;
  if (on_gpu) energy.emplace();
  const Stopwatch total;
  while (request.steps > 0 ? static_cast<int>(seconds.size()) < request.steps
                           : (total.seconds() < kSeconds || seconds.size() < 5)) {
    const Stopwatch watch;
    loss = trainer.step({.ahead = true}).loss;
    memory.look();  // the GPU is at work on the next step meanwhile
    seconds.push_back(watch.seconds());
  }
  const auto count = static_cast<int>(seconds.size());
  int steps_under_meter = count;
  for (; !trainer.settled(); ++steps_under_meter) trainer.step();  // the one that was ahead
  std::optional<double> joules_step;
  if (energy && total.seconds() >= 1) joules_step = energy->joules();  // the counter wants a second
  if (joules_step) *joules_step /= steps_under_meter;
  if (!on_gpu) peak = std::max(peak, checks::measure_gemm_peak());
  const double step_s = median(std::move(seconds));
  const double gflops = trainer.flops_per_step() / step_s * 1e-9;

  JsonLine line;
  line.add("case", request.name)
      .add("scheme", recipe.scheme.name)
      .add("optimizer", request.optimizer)
      .add("device", request.device)
      .add("recompute", std::string(word_of(recipe.train.recompute)))
      .add("ms_step", step_s * 1e3)
      .add("tokens_per_s", static_cast<double>(trainer.tokens_per_step()) / step_s)
      .add("gflops", gflops);
  if (!on_gpu) line.add("gemm_peak_gflops", peak).add("efficiency", gflops / peak);
  line.add("steps", count)
      .add("threads", thread_count())
      .add("parameters", trainer.params().count())
      .add("arena_bytes", static_cast<Index>(trainer.tape().arena().capacity()))
      .add("peak_memory_bytes", memory.bytes())
      .add("first_step_seconds", first_step_s)
      .add("loss", loss);
  if (joules_step) line.add("joules_step", *joules_step);
  if (request.json) {
    std::puts(line.text().c_str());
    return 0;
  }
  std::printf("%s, %s, %s: %lld parameters, %lld tokens a step, %d threads, median of %d steps\n",
              chosen.name,
              recipe.scheme.name.c_str(),
              request.optimizer.c_str(),
              static_cast<long long>(trainer.params().count()),
              static_cast<long long>(trainer.tokens_per_step()),
              thread_count(),
              count);
  std::printf("ms_step          %.2f\ntokens_per_s     %.0f\ngflops           %.1f\n",
              step_s * 1e3,
              static_cast<double>(trainer.tokens_per_step()) / step_s,
              gflops);
  if (!on_gpu) {
    std::printf("gemm_peak_gflops %.1f\nefficiency       %.3f\n", peak, gflops / peak);
  }
  std::printf("peak memory      %s\nfirst step after %.2f s\n",
              human_bytes(static_cast<double>(memory.bytes())).c_str(),
              first_step_s);
  if (joules_step) std::printf("joules_step      %.1f\n", *joules_step);
  if (request.profile) print_profile(profile, count, step_s * 1e3);
  return 0;
}

}  // namespace norma::app
