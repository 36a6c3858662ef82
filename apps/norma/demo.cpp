// norma demo: five small models on one text, side by side, in minutes. What was done stays in the
// folder, and the same command goes on where it was stopped.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "apps/norma/demo_arms.h"
#include "apps/norma/progress.h"
#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/json_value.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/data/build.h"
#include "norma/data/load.h"
#include "norma/fetch/invented_text.h"
#include "norma/fetch/sets.h"
#include "norma/generate/generate.h"
#include "norma/io/file.h"
#include "norma/tensor/planning.h"
#include "norma/text/blocks.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/bpe_training.h"
#include "norma/text/visible.h"
#include "norma/train/forecast.h"
#include "norma/train/trained_model.h"

namespace norma::app {

namespace {

constexpr const char* kPlanFile = "demo.json";
constexpr const char* kDataFolder = "data";
constexpr std::uint64_t kLargestPlan = 1 << 16;
constexpr std::uint64_t kLargestMetrics = 1 << 26;

/// What stays the same when the demo is started again.
struct Plan {
  std::string corpus;
  Index steps = 0;
};

struct ArmResult {
  double nats_per_byte = 0;
  double seconds = 0;
  double tokens_per_s = 0;
  std::string failure;  // a sentence; empty: it ended well
};

class Stopped {};

class Demo {
 public:
  explicit Demo(const DemoRequest& request)
      : request_(request), disk_(io::real_file_system()), out_(request.out) {}

  void run() {
    io::make_folders(disk_, out_);
    read_plan();
    if (plan_.corpus.empty()) choose_corpus();
    make_data();
    if (plan_.steps == 0) choose_steps();
    for (const DemoArm& arm : demo_arms()) results_.push_back(train(arm));
    print_table();
    show_sample();
    print_hints();
  }

 private:
  std::string path_of(const std::string& name) const { return io::join(out_, name); }
  DemoTraining training(Index steps) const {
    return {.data = path_of(kDataFolder), .steps = steps, .threads = request_.threads};
  }
  static void stop_if_asked() {
    if (stop_signal() != 0) throw Stopped{};
  }

  void read_plan() {
    const std::string path = path_of(kPlanFile);
    if (!io::is_there(disk_, path)) return;
    const std::string text = io::File(disk_, path, io::OpenAs::read).text(kLargestPlan);
    const JsonValue plan = parse_json(path, text);
    const JsonValue* corpus = plan.find("corpus");
    const JsonValue* steps = plan.find("steps");
    if (corpus == nullptr || corpus->kind != JsonValue::Kind::string || steps == nullptr ||
        steps->kind != JsonValue::Kind::integer || steps->integer < 0) {
      throw Error(
          say(path, " is not what norma demo wrote; remove ", out_, " or give another --out."));
    }
    plan_ = {corpus->text, steps->integer};
    const bool other_text = !request_.data.empty() && request_.data != plan_.corpus;
    const bool other_steps = request_.steps > 0 && plan_.steps > 0 && request_.steps != plan_.steps;
    if (other_text || other_steps) {
      throw RequestError(say(out_,
                             " holds a demo of ",
                             plan_.steps,
                             " steps on ",
                             plan_.corpus,
                             "; give another --out, or go on with the same request."));
    }
  }

  void write_plan() {
    JsonLine line;
    line.add("corpus", plan_.corpus).add("steps", plan_.steps);
    io::replace_file(disk_, path_of(kPlanFile), line.text() + "\n");
  }

  void choose_corpus() {
    plan_.corpus = request_.data.empty() ? demo_text() : request_.data;
    write_plan();
  }

  /// The fetched corpus, or an invented one where no registry answers.
  std::string demo_text() {
    fetch::GetOptions options;
    options.tell = [](const std::string& doing) { std::fprintf(stderr, "%s\n", doing.c_str()); };
    try {
      return fetch::demo_corpus_path(disk_, options);
    } catch (const fetch::StoppedError&) {
      throw Stopped{};
    } catch (const Error& error) {
      std::fprintf(stderr, "norma: note: %s\n", error.what());
      std::fprintf(stderr, "norma: note: going on with invented text.\n");
    }
    constexpr std::uint64_t kBytes = 8'000'000;
    std::string path = path_of("invented.txt");
    io::replace_file(disk_, path, fetch::invented_text({.bytes = kBytes, .seed = 1}));
    return path;
  }

  void make_data() {
    const std::string folder = path_of(kDataFolder);
    if (io::is_there(disk_, folder)) return;
    std::fprintf(stderr,
                 "Learning %lld byte pairs from %s.\n",
                 static_cast<long long>(kDemoVocab),
                 plan_.corpus.c_str());
    text::BpeTrainer trainer({.vocab_size = static_cast<text::Id>(kDemoVocab)});
    constexpr std::size_t kBlock = std::size_t{1} << 22;
    text::for_each_block(plan_.corpus, kBlock, [&](std::string_view block) {
      stop_if_asked();
      trainer.add(block);
    });
    const text::BpeTokenizer tokenizer(trainer.train());
    BuildSpec spec;
    spec.inputs = {plan_.corpus};
    spec.out = folder;
    spec.val_fraction = 0.03;
    const BuildResult built = build_dataset(spec, tokenizer, [](const BuildProgress&) {});
    if (built.stopped) throw Stopped{};
  }

  void choose_steps() {
    // The slowest arm is timed; the minutes also hold evaluations, checkpoints and the sample.
    constexpr double kShare = 0.88;
    constexpr Index kFewest = 150;
    constexpr Index kMost = 700;
    plan_.steps = request_.steps;
    if (plan_.steps == 0) {
      const Recipe slowest = demo_recipe(demo_arms().back(), training(kMost));
      const double step_s = forecast(slowest, {}).step_seconds;
      const double fit =
          request_.minutes * 60 * kShare / (step_s * static_cast<double>(demo_arms().size()));
      plan_.steps = std::clamp(static_cast<Index>(fit), kFewest, kMost);
    }
    write_plan();
  }

  ArmResult train(const DemoArm& arm) {
    const std::string run = path_of(arm.folder);
    const Recipe recipe = demo_recipe(arm, training(plan_.steps));
    std::fprintf(stderr,
                 "%zu of %zu: %s with %s, learning rate %g\n",
                 results_.size() + 1,
                 demo_arms().size(),
                 arm.model,
                 arm.optimizer,
                 recipe.optim.lr);
    ArmResult result;
    try {
      if (!is_done(disk_, run)) train_on(recipe, run);
      read_result(run, result);
    } catch (const DivergedError& error) {
      result.failure = error.what();
    }
    return result;
  }

  void train_on(const Recipe& recipe, const std::string& run) {
    if (peak_ == 0) peak_ = checks::measure_gemm_peak();
    ProgressDisplay display;
    const RunResult ended = train_run(recipe,
                                      load_data(recipe.data, recipe.model.vocab),
                                      {.out = run, .resume = true, .peak_gflops = peak_},
                                      [&](const RunProgress& progress) { display.show(progress); });
    display.finish();
    if (ended.end == RunEnd::stopped) throw Stopped{};
  }

  void read_result(const std::string& run, ArmResult& result) {
    const std::string path = io::join(run, "metrics.jsonl");
    std::string text = io::File(disk_, path, io::OpenAs::read).text(kLargestMetrics);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const JsonValue last = parse_json(path, text.substr(text.rfind('\n') + 1));
    const auto number = [&](const char* key) {
      const JsonValue* value = last.find(key);
      if (value == nullptr) throw Error(say(path, ": the last line has no ", key, "."));
      return value->kind == JsonValue::Kind::integer ? static_cast<double>(value->integer)
                                                     : value->number;
    };
    result.nats_per_byte = number("val/bpb") * std::log(2.0);
    result.seconds = number("time_s");
    result.tokens_per_s = number("perf/tokens_per_s");
  }

  std::optional<std::size_t> best() const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i].failure.empty()) continue;
      if (!found || results_[i].nats_per_byte < results_[*found].nats_per_byte) found = i;
    }
    return found;
  }

  void print_table() {
    std::printf("\n%lld steps each on %s; held-out text:\n\n",
                static_cast<long long>(plan_.steps),
                plan_.corpus.c_str());
    std::printf(
        "model   optimizer  parameters  nats/byte  bits/byte    time  tokens/s  optimizer state\n");
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const DemoArm& arm = demo_arms()[i];
      const ArmResult& result = results_[i];
      const PlanningScope planning;
      const Trainer planned(demo_recipe(arm, training(plan_.steps)), {});
      const auto count = static_cast<double>(planned.params().count());
      if (!result.failure.empty()) {
        std::printf("%-7s %-9s  %s\n", arm.model, arm.optimizer, result.failure.c_str());
        continue;
      }
      std::printf(
          "%-7s %-9s  %8.2f M  %9.3f  %9.3f  %6s  %8.0f  %4.1f MiB (%.0f bytes a parameter)%s\n",
          arm.model,
          arm.optimizer,
          count * 1e-6,
          result.nats_per_byte,
          result.nats_per_byte / std::log(2.0),
          clock_text(result.seconds).c_str(),
          result.tokens_per_s,
          static_cast<double>(planned.memory().optimizer) / (1 << 20),
          static_cast<double>(planned.memory().optimizer) / count,
          best() == i ? "  best" : "");
    }
  }

  void show_sample() {
    if (!best()) return;
    const DemoArm& arm = demo_arms()[*best()];
    const std::string run = path_of(arm.folder);
    TrainedModel trained(disk_, run);
    const auto tokenizer = tokenizer_of_run(run);
    const std::string prompt = "The people";  // no space at the end: words begin with theirs
    GenerateSpec spec = spec_for(*tokenizer, trained.recipe().model.vocab);
    spec.tokens = 150;
    spec.sampling = {.temperature = 0.7, .top_k = 40, .top_p = 1, .seed = 1};
    std::string text = prompt;
    Decoder decoder(trained.model(), 1);
    generate(decoder,
             prompt_ids(*tokenizer, prompt, trained.recipe().model.vocab),
             spec,
             [&](Index, std::int32_t id) {
               text += tokenizer->decode({&id, 1});
               return stop_signal() == 0;
             });
    stop_if_asked();
    std::printf("\n%s with %s goes on from \"%s\":\n\n%s\n",
                arm.model,
                arm.optimizer,
                prompt.c_str(),
                text::visible(text, text::Lines::many).c_str());
  }

  void print_hints() const {
    const char* out = out_.c_str();
    const char* arm = demo_arms()[best().value_or(0)].folder;
    std::printf(
        "\nEverything lies in %s: the data set, and a run folder for each model with its recipe,\n"
        "metrics and checkpoints. What to try next:\n\n"
        "  norma sample %s/%s --prompt \"My fellow citizens\" -n 3\n"
        "  norma eval %s/%s\n"
        "  norma schemes ngpt\n"
        "  norma demo --data YOUR_TEXT.txt --out my-demo\n",
        out,
        out,
        arm,
        out,
        arm);
  }

  DemoRequest request_;
  io::FileSystem& disk_;
  std::string out_;
  Plan plan_;
  std::vector<ArmResult> results_;
  double peak_ = 0;
};

}  // namespace

int run_demo(const DemoRequest& request) {
  watch_stop_signals();
  const ThreadScope threads(request.threads == 0 ? thread_count() : request.threads);
  try {
    Demo(request).run();
  } catch (const Stopped&) {
    std::fprintf(stderr,
                 "norma: note: stopped by signal %d; the same command goes on from here.\n",
                 stop_signal());
    return 128 + stop_signal();
  }
  return 0;
}

}  // namespace norma::app
