#include "norma/train/forecast.h"

#include <algorithm>
#include <vector>

#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/median.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/generate/decoder.h"
#include "norma/tensor/planning.h"
#include "norma/train/run.h"

namespace norma {

namespace {

/// Median seconds of a step. `beyond` becomes at least what the process held besides what the
/// trainer knows of: code, threads, the matrix library's own memory.
double time_steps(const Recipe& recipe, double budget_s, std::size_t& beyond) {
  const Index tokens = std::max<Index>(4 * recipe.model.context, 1 << 16);  // a few steps' worth
  Trainer trainer(recipe, random_tokens(recipe.model.vocab, tokens), Trainer::Start::zero);
  trainer.step();  // allocates and warms up
  std::vector<double> seconds;
  const Stopwatch total;
  do {
    const Stopwatch watch;
    trainer.step();
    seconds.push_back(watch.seconds());
  } while (seconds.size() < 30 && total.seconds() < budget_s);
  if (recipe.train.device == DeviceKind::cpu) {
    const std::size_t held = peak_process_bytes();
    const std::size_t known = trainer.memory().total();
    if (held > known) beyond = std::max(beyond, held - known);
  }
  return median(std::move(seconds));
}

Recipe slice_of(Recipe recipe, Index layers, Index rows) {
  recipe.model.layers = layers;
  recipe.train.batch = rows;
  recipe.train.micro_batch = 0;
  return recipe;
}

double parameters_of(const Recipe& recipe) {
  const PlanningScope plan;
  const Trainer trainer(recipe, {});
  return static_cast<double>(trainer.params().count());
}

/// A step costs something per parameter (clipping, the optimizer) and something per sequence that
/// is linear in the number of blocks: three small models tell them apart.
double extrapolated_step(const Recipe& recipe, std::size_t& beyond) {
  const double one = time_steps(slice_of(recipe, 1, 1), 1, beyond);
  std::size_t ignored = 0;  // the process has held other models by then
  const double twice = time_steps(slice_of(recipe, 1, 2), 1, ignored);
  const double deeper = time_steps(slice_of(recipe, 2, 1), 1, ignored);
  const double sequence = std::max(twice - one, 0.0);
  const double per_parameter =
      std::max(one - sequence, 0.0) / parameters_of(slice_of(recipe, 1, 1));
  const double block =
      std::max(deeper - per_parameter * parameters_of(slice_of(recipe, 2, 1)) - sequence, 0.0);
  const auto blocks = static_cast<double>(recipe.model.layers - 1);
  return per_parameter * parameters_of(recipe) +
         static_cast<double>(recipe.train.batch) * (sequence + blocks * block);
}

/// Floating-point operations that are timed at most: a few seconds on two cores, or on a GPU, which
/// a slice of a model would leave half idle.
double most_timed_flops(const Recipe& recipe) {
  return recipe.train.device == DeviceKind::cpu ? 4e11 : 4e15;
}

/// What is there, and what is taken before the run takes anything.
Forecast ground_of(const Recipe& recipe) {
  Forecast result;
  if (recipe.train.device == DeviceKind::cpu) {
    result.process_bytes = peak_process_bytes();
    result.machine_bytes = machine_memory();
    return result;
  }
  result.process_bytes = device::kProductWorkspaceBytes;
  result.device_bytes_known = device::available();
  if (!result.device_bytes_known) return result;
  const device::Info gpu = device::info();
  result.process_bytes += gpu.taken_bytes();
  result.machine_bytes = gpu.total_bytes;
  return result;
}

/// Of the samples that are drawn while a model trains (training_samples.h).
std::size_t sampling_bytes(Gpt& model, const TrainSpec& train) {
  Decoder decoder(model, train.samples);
  // A token of a prompt is a byte or more. When the context is full, half of it is read again.
  const Index context = model.spec().context;
  const Index prompt = std::max<Index>(static_cast<Index>(train.sample_prompt.size()), 1);
  const Index again = prompt + train.sample_tokens > context ? context / 2 : 1;
  const Index longest = std::min(context, std::max(prompt, again));
  decoder.start(std::vector<std::int32_t>(static_cast<std::size_t>(longest)));
  return decoder.bytes();
}

/// Settings with which the run fits into so many bytes, those that cost the least time first; empty
/// where there are none. Whole blocks computed again cost a third of a step, the rest little.
std::string what_fits(const Recipe& recipe, std::size_t room) {
  const Index rows = recipe.train.rows_at_once();
  const auto fits = [&](Index fewer, Recompute recompute) {
    Recipe other = recipe;
    other.train.micro_batch = fewer;
    other.train.recompute = recompute;
    return plan_memory(other, {}).wanted() <= room;
  };
  const auto search = [&](std::initializer_list<Recompute> levels) -> std::string {
    for (Index fewer = rows; fewer > 0; --fewer) {
      if (recipe.train.batch % fewer != 0) continue;
      for (const Recompute level : levels) {
        if (!fits(fewer, level)) continue;
        std::string settings;
        if (fewer != rows) settings = say("train.micro_batch=", fewer);
        if (level != recipe.train.recompute) {
          settings += say(settings.empty() ? "" : " ", "train.recompute=", word_of(level));
        }
        return settings;
      }
    }
    return {};
  };
  std::string found = search({recipe.train.recompute, Recompute::cheap});
  return found.empty() ? search({Recompute::blocks}) : found;
}

}  // namespace

std::vector<std::pair<std::string, std::size_t>> Forecast::parts() const {
  std::vector<std::pair<std::string, std::size_t>> all{
      {"parameters", memory.parameters},
      {"gradients", memory.gradients},
      {"optimizer state", memory.optimizer},
      {"optimizer scratch", memory.optimizer_scratch},
      {"activations", memory.activations},
      {"data", memory.data}};
  if (memory.angles > 0) all.emplace_back("angles", memory.angles);
  if (sampling_bytes > 0) all.emplace_back("samples", sampling_bytes);
  return all;
}

std::optional<std::string> too_large(const Recipe& recipe, const Forecast& plan) {
  if (!plan.device_bytes_known || plan.bytes() <= plan.machine_bytes) return {};
  const auto human = [](std::size_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  std::string parts;
  for (const auto& [name, bytes] : plan.parts()) {
    if (bytes < plan.wanted() / 100) continue;
    parts += say(parts.empty() ? "" : ", ", name, " ", human(bytes));
  }
  // What is there whatever the settings are: data.
  const std::size_t given = plan.wanted() - plan_memory(recipe, {}).wanted();
  const std::string settings = what_fits(recipe, plan.room() - std::min(plan.room(), given));
  return say("the run wants ",
             human(plan.wanted()),
             recipe.train.device == DeviceKind::cuda ? " of a GPU" : " of a machine",
             " that has ",
             human(plan.room()),
             " for it: ",
             parts,
             settings.empty() ? ". No train.micro_batch and no train.recompute would fit; use a "
                                "smaller model.context or model."
                              : say(". It would fit with ", settings, "."));
}

Forecast plan_memory(const Recipe& recipe, const TokenData& data) {
  Forecast result = ground_of(recipe);
  try {
    const PlanningScope plan;
    Trainer trainer(recipe, {});
    trainer.step();
    result.parameters = trainer.params().count();
    result.memory = trainer.memory();
    if (recipe.train.device == DeviceKind::cpu) result.memory.data += data.held_bytes;
    if (recipe.train.angle_every > 0) result.memory.angles = trainer.params().values().bytes();
    if (recipe.train.sample_every > 0) {
      result.sampling_bytes = sampling_bytes(trainer.model(), recipe.train);
    }
    result.flops_per_step = trainer.flops_per_step();
  } catch (const MemoryError& error) {
    throw RequestError(say("the run is too large to be planned: ", error.what()));
  }
  return result;
}

Forecast forecast(const Recipe& recipe, const TokenData& data) {
  Forecast result = plan_memory(recipe, data);
  if (!result.device_bytes_known) return result;
  // Others want memory of the machine; a GPU is the run's alone.
  const bool gpu = recipe.train.device == DeviceKind::cuda;
  const std::size_t there = gpu ? result.room() : result.machine_bytes;
  const bool fits = gpu ? result.wanted() <= there : result.wanted() < there / 2;
  const bool slice_fits =
      fits ||
      plan_memory(slice_of(recipe, std::min<Index>(recipe.model.layers, 2), 2), {}).wanted() <
          there / 2;
  if (!slice_fits) return result;
  result.timed_whole = result.flops_per_step <= most_timed_flops(recipe) && fits;
  result.step_seconds = result.timed_whole ? time_steps(recipe, 3, result.process_bytes)
                                           : extrapolated_step(recipe, result.process_bytes);
  const Index evaluations =
      recipe.train.eval_every > 0
          ? (recipe.train.steps + recipe.train.eval_every - 1) / recipe.train.eval_every
          : 1;
  const Index val = recipe.train.eval_tokens > 0
                        ? std::min(recipe.train.eval_tokens, data.val.count)
                        : data.val.count;
  // Forward alone is a third of a step.
  const double evaluation_s = result.step_seconds / 3 * static_cast<double>(val) /
                              static_cast<double>(recipe.train.batch * recipe.model.context);
  result.total_seconds = static_cast<double>(recipe.train.steps) * result.step_seconds +
                         static_cast<double>(evaluations) * evaluation_s;
  return result;
}

}  // namespace norma
