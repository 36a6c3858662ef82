#include "apps/norma/demo_arms.h"

#include "norma/base/text.h"

namespace norma::app {

namespace {

// About 1.1 M parameters. Each arm has the best of the learning rates that were tried at this size
// (docs/learning.md).
constexpr const char* kShared = R"toml(
[model]
layers = 4
width = 128
heads = 4
context = 128

[optim]
clip_bound = 1.0

[optim.adamw]
weight_decay = 0.1
beta1 = 0.9
beta2 = 0.95

[optim.sgdw]
weight_decay = 1e-4
momentum = 0.9

[schedule]
name = "cosine"

[train]
batch = 12
log_every = 100
checkpoint_every = 100
)toml";

constexpr DemoArm kArms[] = {
    {"gpt2-adamw", "GPT-2", "AdamW", R"toml(
scheme.base = "pre-ln"
model.bias = true
optim.name = "adamw"
optim.lr = 2e-3
)toml"},
    {"gpt2-msgdw", "GPT-2", "mSGDW", R"toml(
scheme.base = "pre-ln"
model.bias = true
optim.name = "sgdw"
optim.lr = 0.2
)toml"},
    {"l-dnt-adamw", "L-DNT", "AdamW", R"toml(
scheme.base = "dnt"
optim.name = "adamw"
optim.lr = 1e-2
)toml"},
    {"l-dnt-msgdw", "L-DNT", "mSGDW", R"toml(
scheme.base = "dnt"
optim.name = "sgdw"
optim.lr = 0.7
)toml"},
    {"ngpt-adamw", "nGPT", "AdamW", R"toml(
scheme.base = "ngpt"
optim.name = "adamw"
optim.lr = 1.6e-2
optim.adamw.weight_decay = 0.0
schedule.warmup = 0
)toml"},
};

}  // namespace

std::span<const DemoArm> demo_arms() { return kArms; }

Recipe demo_recipe(const DemoArm& arm, const DemoTraining& training) {
  Settings settings = Settings::from_toml(kShared, "norma demo");
  const auto set = [&](const char* key, Settings::Value value) {
    settings.set({key, std::move(value), "norma demo"});
  };
  set("model.vocab", kDemoVocab);
  set("data.path", training.data);
  set("train.steps", training.steps);
  set("train.threads", training.threads);
  set("schedule.warmup", training.steps / 14);
  const Settings own = Settings::from_toml(arm.settings, say("norma demo, ", arm.folder));
  for (const Settings::Entry& entry : own.entries()) settings.set(entry);
  return read_recipe(settings);
}

}  // namespace norma::app
