// norma train: a recipe becomes a run folder.
#include <csignal>
#include <cstdio>

#include "apps/norma/progress.h"
#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/data/load.h"
#include "norma/train/forecast.h"
#include "norma/train/run.h"

namespace norma::app {

namespace {

double megabytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

void print_time(const Forecast& plan) {
  std::printf("time        %.4g s a step, %s in all (%s; %d threads)\n",
              plan.step_seconds,
              clock_text(plan.total_seconds).c_str(),
              plan.timed_whole ? "timed" : "from timings of the first blocks",
              thread_count());
}

void print_forecast(const Recipe& recipe, const Forecast& plan) {
  const auto row = [](const char* what, std::size_t bytes) {
    std::printf("  %-22s %12.1f MiB\n", what, megabytes(bytes));
  };
  std::printf("model       %s, scheme %s, %lld parameters (%.2f M)\n",
              std::string(word_of(recipe.model.family)).c_str(),
              recipe.scheme.name.c_str(),
              static_cast<long long>(plan.parameters),
              static_cast<double>(plan.parameters) * 1e-6);
  std::printf("optimizer   %s, %.2f bytes of state a parameter\n",
              std::string(word_of(recipe.optim.name)).c_str(),
              static_cast<double>(plan.memory.optimizer) / static_cast<double>(plan.parameters));
  std::puts("memory");
  for (const auto& [what, bytes] : plan.parts()) row(what.c_str(), bytes);
  row(plan.device_bytes_known ? "the program itself" : "workspaces", plan.process_bytes);
  row("all", plan.bytes());
  if (!plan.device_bytes_known) {
    std::puts("  and what CUDA takes for itself; there is no GPU here to ask");
  } else if (const auto why = too_large(recipe, plan)) {
    std::printf("  %s\n", why->c_str());
  }
  if (plan.step_seconds > 0) print_time(plan);
  const Index tokens = recipe.train.batch * recipe.model.context;
  std::printf("work        %.4g TFLOP a step, %lld tokens a step\n",
              plan.flops_per_step * 1e-12,
              static_cast<long long>(tokens));
}

void print_forecast_json(const Recipe& recipe, const Forecast& plan) {
  JsonLine line;
  line.add("scheme", recipe.scheme.name)
      .add("optimizer", word_of(recipe.optim.name))
      .add("parameters", plan.parameters)
      .add("parameter_bytes", static_cast<Index>(plan.memory.parameters))
      .add("gradient_bytes", static_cast<Index>(plan.memory.gradients))
      .add("optimizer_bytes", static_cast<Index>(plan.memory.optimizer))
      .add("optimizer_scratch_bytes", static_cast<Index>(plan.memory.optimizer_scratch))
      .add("activation_bytes", static_cast<Index>(plan.memory.activations))
      .add("data_bytes", static_cast<Index>(plan.memory.data))
      .add("angle_bytes", static_cast<Index>(plan.memory.angles))
      .add("sampling_bytes", static_cast<Index>(plan.sampling_bytes))
      .add("process_bytes", static_cast<Index>(plan.process_bytes))
      .add("bytes", static_cast<Index>(plan.bytes()))
      .add("step_s", plan.step_seconds)
      .add("total_s", plan.total_seconds);
  std::puts(line.text().c_str());
}

int report(const RunResult& result, const TrainRequest& request) {
  for (const std::string& remark : result.remarks) {
    std::fprintf(stderr, "norma: note: %s\n", remark.c_str());
  }
  if (result.end == RunEnd::was_done) {
    std::printf("%s is done already.\n", request.out.c_str());
    return 0;
  }
  if (request.json) {
    JsonLine line;
    line.add("run", request.out)
        .add("steps", result.steps)
        .add("train/loss", result.train_loss)
        .add("val/loss", result.val_loss)
        .add("seconds", result.seconds)
        .add("step_s", result.step_seconds)
        .add("bytes", static_cast<Index>(result.bytes));
    std::puts(line.text().c_str());
  } else {
    std::printf("%s: %lld steps, loss %.4f, validation loss %.4f, %s, %.0f MiB\n",
                request.out.c_str(),
                static_cast<long long>(result.steps),
                result.train_loss,
                result.val_loss,
                clock_text(result.seconds).c_str(),
                megabytes(result.bytes));
  }
  return result.end == RunEnd::stopped ? 128 + stop_signal() : 0;
}

}  // namespace

int run_train(const TrainRequest& request) {
  if (!request.dry_run && !request.print_config) watch_stop_signals(FirstSignal::ends);
  const Recipe recipe = load_recipe(request.recipe, request.assignments);
  for (const std::string& warning : recipe.warnings) {
    std::fprintf(stderr, "norma: warning: %s\n", warning.c_str());
  }
  if (recipe.train.threads > 0) set_thread_count(static_cast<int>(recipe.train.threads));
  if (request.print_config) {
    std::fputs(recipe_text(recipe).c_str(), stdout);
    return 0;
  }
  if (request.dry_run) {
    const bool has_data = !recipe.data.path.empty();
    const Forecast plan =
        forecast(recipe, has_data ? load_data(recipe.data, recipe.model.vocab) : TokenData{});
    request.json ? print_forecast_json(recipe, plan) : print_forecast(recipe, plan);
    return 0;
  }
  if (request.out.empty()) throw RequestError("train: say where the run goes with --out FOLDER.");
  if (request.resume && request.force) {
    throw RequestError("train: --resume goes on and --force starts over; say one of them.");
  }
  TokenData data = load_data(recipe.data, recipe.model.vocab);
  const bool gpu = recipe.train.device == DeviceKind::cuda;
  const double peak = gpu ? checks::measure_gpu_gemm_peak() : checks::measure_gemm_peak();
  watch_stop_signals(FirstSignal::noted);
  ProgressDisplay display;
  const RunResult result = train_run(
      recipe,
      std::move(data),
      {.out = request.out, .resume = request.resume, .force = request.force, .peak_gflops = peak},
      [&](const RunProgress& progress) { display.show(progress); });
  display.finish();
  return report(result, request);
}

}  // namespace norma::app
