#include "norma/train/recipe.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/read_fields.h"
#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/ops/attention.h"

namespace norma {

namespace {

bool narrow(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::bf16_storage;
}

void require_sense(const TrainSpec& train) {
  if (train.device == DeviceKind::cpu && narrow(train.precision)) {
    throw RequestError(say("train.precision = ",
                           word_of(train.precision),
                           " needs train.device = cuda; the cpu has f32 and f64."));
  }
  if (train.device == DeviceKind::cuda && train.precision == Precision::f64) {
    throw RequestError("train.precision = f64 needs train.device = cpu; a GPU has bf16 and f32.");
  }
  if (train.micro_batch > 0 && train.batch % train.micro_batch != 0) {
    throw RequestError(say("train.micro_batch must divide train.batch = ",
                           train.batch,
                           ", got ",
                           train.micro_batch,
                           "."));
  }
}

void require_gpu_heads(const Recipe& recipe) {
  if (recipe.train.device != DeviceKind::cuda || recipe.model.head() <= widest_gpu_head()) return;
  throw RequestError(say("heads on a GPU are at most ",
                         widest_gpu_head(),
                         " wide, got ",
                         recipe.model.head(),
                         "; use more model.heads, or train.device = cpu."));
}

/// [scheme] as it is in the recipe; a recipe without one trains the plain GPT.
Settings scheme_table(const Settings& given) {
  Settings table = given.below("scheme");
  if (table.entries().empty()) table.set({"base", std::string("pre-ln"), "default"});
  return table;
}

/// [optim.adamw], [optim.sgdw], …: settings that count only under the optimizer of that name, so
/// that a recipe can hold what was published for each. They win over [optim], the command line over
/// both.
void pick_optimizer_table(Settings& settings) {
  std::string chosen(word_of(OptimSpec{}.name));
  if (const Settings::Entry* name = settings.find("optim.name")) {
    if (const auto* text = std::get_if<std::string>(&name->value)) chosen = *text;
  }
  for (const auto& [word, meaning] : Words<OptimName>::kAll) {
    const std::string table = say("optim.", word);
    if (word == chosen) {
      const Settings own = settings.below(table);
      for (const Settings::Entry& entry : own.entries()) {
        const std::string key = say("optim.", entry.key);
        const Settings::Entry* there = settings.find(key);
        const bool said = there != nullptr && there->origin == kCommandLine;
        if (!said) settings.set({key, entry.value, entry.origin});
      }
    }
    settings.remove_below(table);
  }
}

bool is_scheme_key(const std::string& key) { return key.starts_with("scheme."); }

}  // namespace

Recipe read_recipe(const Settings& given) {
  Recipe recipe;
  Settings scheme_values = scheme_settings(scheme_table(given));
  const Settings::Entry* name = scheme_values.find("name");
  const bool changed = given.below("scheme").entries().size() > 1;
  if (name != nullptr && changed && given.find("scheme.name") == nullptr) {
    scheme_values.set({"name", say(std::get<std::string>(name->value), "+"), "recipe"});
  }
  recipe.scheme = read_scheme(scheme_values);

  Settings merged = recipe.scheme.wishes;
  for (const Settings::Entry& entry : given.entries()) {
    if (!is_scheme_key(entry.key)) merged.set(entry);
  }
  pick_optimizer_table(merged);
  SettingsReader reader(merged);
  reader.read("model", recipe.model);
  reader.read("optim", recipe.optim);
  reader.read("schedule", recipe.schedule);
  reader.read("data", recipe.data);
  reader.read("train", recipe.train);
  reader.refuse_unknown();

  require_sense(recipe.train);
  require_gpu_heads(recipe);
  recipe.optim = norma::resolved(recipe.optim);
  lr_at(recipe.schedule, recipe.optim.lr, 0, recipe.train.steps);  // refuses what does not fit
  recipe.warnings = judge_scheme(recipe.scheme, true);
  if (recipe.scheme.block[Site::patch_pre] || recipe.scheme.block[Site::patch_post]) {
    recipe.warnings.push_back(say(
        "scheme ", recipe.scheme.name, ": a text model has no patches; their norms do nothing."));
  }

  if (recipe.train.device == DeviceKind::cuda && recipe.train.precision == Precision::f32) {
    recipe.warnings.emplace_back(
        "train.precision = f32 on a GPU computes in double, for comparisons with the CPU; "
        "train.precision=bf16 is many times faster.");
  }

  write_fields(recipe.resolved, merged, "model", recipe.model);
  for (const Settings::Entry& entry : scheme_values.entries()) {
    const bool wish = recipe.scheme.wishes.find(entry.key) != nullptr;
    if (!wish) recipe.resolved.set({say("scheme.", entry.key), entry.value, entry.origin});
  }
  write_fields(recipe.resolved, merged, "optim", recipe.optim);
  write_fields(recipe.resolved, merged, "schedule", recipe.schedule);
  write_fields(recipe.resolved, merged, "data", recipe.data);
  write_fields(recipe.resolved, merged, "train", recipe.train);
  return recipe;
}

Recipe load_recipe(const std::string& path, const std::vector<std::string>& assignments) {
  Settings given = Settings::from_file(path);
  for (const std::string& assignment : assignments) given.set_assignment(assignment);
  return read_recipe(given);
}

Settings used_settings(const Recipe& recipe) {
  Settings used;
  for (const Settings::Entry& entry : recipe.resolved.entries()) {
    const auto* number = std::get_if<double>(&entry.value);
    const bool unused = number != nullptr && std::isnan(*number);  // this optimizer lacks it
    if (!unused) used.set(entry);
  }
  return used;
}

DType Recipe::dtype_on(Device device) const {
  const bool gpu = device.kind == DeviceKind::cuda;
  if (train.precision == Precision::f64 && !gpu) return DType::f64;
  if (narrow(train.precision) && gpu) return DType::bf16;
  return DType::f32;
}

Masters Recipe::masters() const {
  return train.precision == Precision::bf16_storage ? Masters::none : Masters::f32;
}

std::string recipe_text(const Recipe& recipe) {
  return "# Resolved: every setting of the run, and where it came from.\n" +
         toml_text(used_settings(recipe), Origins::shown);
}

}  // namespace norma
