// norma bench train: whole training steps (forward, backward, clip, AdamW) of a plain pre-LN GPT on
// random tokens, against the best matrix product of the same process.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/models/plain_gpt.h"
#include "norma/optim/clip.h"
#include "norma/optim/optimizer.h"

namespace norma::app {

namespace {

struct Case {
  const char* name;
  PlainGptSpec model;
  Index batch;
};

constexpr std::array kCases = {
    Case{"gpt-d128", {.layers = 4, .heads = 4, .width = 128, .context = 64, .vocab = 65}, 12},
    Case{"gpt-d192", {.layers = 6, .heads = 6, .width = 192, .context = 256, .vocab = 4096}, 16},
    Case{"gpt-d384", {.layers = 6, .heads = 6, .width = 384, .context = 256, .vocab = 65}, 8},
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

/// A model with everything that a step needs.
class Trainer {
 public:
  explicit Trainer(const Case& chosen) : model_(chosen.model, params_), batch_(chosen.batch) {
    params_.allocate(DType::f32);
    model_.init(1);
    optimizer_ = make_optimizer(
        params_, {.name = OptimName::adamw, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95});
    norm_.emplace(params_);
    ids_ = OwnedTensor({batch_, chosen.model.context}, DType::i32);
    targets_ = OwnedTensor({batch_ * chosen.model.context}, DType::i32);
  }

  double step() {
    draw_tokens();
    tape_.reset(step_);
    params_.begin_accumulation();
    const Var loss = model_.loss(tape_, ids_.tensor, targets_.tensor);
    tape_.backward(loss);
    params_.finish_accumulation();
    optimizer_->step(params_,
                     {.lr = kLearningRate, .grad_scale = clip_factor((*norm_)(params_), kMaxNorm)});
    ++step_;
    return value_at(loss.value(), 0, 0);
  }

  Tape& tape() { return tape_; }
  Index tokens() const { return targets_.tensor.count(); }
  Index parameters() const { return params_.count(); }
  double flops() const {
    return model_.flops_per_token(model_.spec().context) * static_cast<double>(tokens());
  }

 private:
  static constexpr double kLearningRate = 1e-3;
  static constexpr double kMaxNorm = 1.0;

  void draw_tokens() {
    const auto draw = [&](const Tensor& to, std::uint64_t stream) {
      const RandomKey key{static_cast<std::uint64_t>(step_), stream};
      std::uint64_t at = 0;
      for (std::int32_t& id : to.elements<std::int32_t>()) {
        id = static_cast<std::int32_t>(random_word(key, at++) %
                                       static_cast<std::uint32_t>(model_.spec().vocab));
      }
    };
    draw(ids_.tensor, 1);
    draw(targets_.tensor, 2);
  }

  ParamStore params_;
  PlainGpt model_;
  Index batch_;
  Tape tape_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GlobalNorm> norm_;
  OwnedTensor ids_;
  OwnedTensor targets_;
  Index step_ = 0;
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

  // The peak is taken before and after, so that a busy moment does not flatter the efficiency.
  double peak = checks::measure_gemm_peak();
  Trainer trainer(chosen);
  double loss = 0;
  for (int i = 0; i < kWarmup; ++i) loss = trainer.step();
  Profile profile;
  if (request.profile) trainer.tape().set_profile(&profile);
  std::vector<double> seconds;
  const Stopwatch total;
  while (request.steps > 0 ? static_cast<int>(seconds.size()) < request.steps
                           : (total.seconds() < kSeconds || seconds.size() < 5)) {
    const Stopwatch watch;
    loss = trainer.step();
    seconds.push_back(watch.seconds());
  }
  const auto count = static_cast<int>(seconds.size());
  peak = std::max(peak, checks::measure_gemm_peak());
  std::nth_element(seconds.begin(), seconds.begin() + count / 2, seconds.end());
  const double step_s = seconds[static_cast<std::size_t>(count) / 2];
  const double gflops = trainer.flops() / step_s * 1e-9;

  JsonLine line;
  line.add("case", request.name)
      .add("ms_step", step_s * 1e3)
      .add("tokens_per_s", static_cast<double>(trainer.tokens()) / step_s)
      .add("gflops", gflops)
      .add("gemm_peak_gflops", peak)
      .add("efficiency", gflops / peak)
      .add("steps", count)
      .add("threads", thread_count())
      .add("parameters", trainer.parameters())
      .add("arena_bytes", static_cast<Index>(trainer.tape().arena().capacity()))
      .add("loss", loss);
  if (request.json) {
    std::puts(line.text().c_str());
    return 0;
  }
  std::printf("%s: %lld parameters, %lld tokens a step, %d threads, median of %d steps\n",
              chosen.name,
              static_cast<long long>(trainer.parameters()),
              static_cast<long long>(trainer.tokens()),
              thread_count(),
              count);
  std::printf(
      "ms_step          %.2f\ntokens_per_s     %.0f\ngflops           %.1f\n"
      "gemm_peak_gflops %.1f\nefficiency       %.3f\n",
      step_s * 1e3,
      static_cast<double>(trainer.tokens()) / step_s,
      gflops,
      peak,
      gflops / peak);
  if (request.profile) print_profile(profile, count, step_s * 1e3);
  return 0;
}

}  // namespace norma::app
