// A run in memory: accumulation, determinism, memory, evaluation, divergence.
#include "norma/train/trainer.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/base/threads.h"
#include "norma/generate/decoder.h"
#include "norma/nn/catalogue.h"
#include "norma/optim/constraints.h"
#include "norma/tensor/planning.h"
#include "norma/train/forecast.h"
#include "tests/support/expect.h"
#include "tests/support/heap_count.h"
#include "tests/support/small_recipe.h"

namespace norma {
namespace {

using test::same_bits;
using test::small_data;
using test::small_recipe;
using test::throws;

TEST(Trainer, LearnsTheText) {
  Trainer trainer(small_recipe({"train.steps=150", "optim.lr=2e-2"}), small_data());
  const double before = trainer.evaluate()->loss;
  EXPECT_NEAR(before, std::log(256.0), 0.3);
  for (int i = 0; i < 150; ++i) trainer.step();
  EXPECT_LT(trainer.evaluate()->loss, 0.5 * before);
}

TEST(Trainer, SameSeedSameBitsForAnyThreadCount) {
  Trainer one(small_recipe(), small_data());
  Trainer two(small_recipe(), small_data());
  for (int i = 0; i < 5; ++i) {
    {
      const ThreadScope scope(1);
      one.step();
    }
    {
      const ThreadScope scope(2);
      two.step();
    }
  }
  EXPECT_TRUE(same_bits(one.params().values(), two.params().values()));
  Trainer other(small_recipe({"train.seed=2"}), small_data());
  EXPECT_FALSE(
      same_bits(Trainer(small_recipe(), small_data()).params().values(), other.params().values()));
}

TEST(Trainer, TheStepReportSaysWhatHappened) {
  Trainer trainer(small_recipe({"optim.clip_bound=1e-3"}), small_data());
  const StepReport first = trainer.step({.angles = true});
  EXPECT_EQ(first.step, 1);
  EXPECT_DOUBLE_EQ(first.lr, 3e-3 / 3);  // nanoGPT's warm-up of two steps
  EXPECT_TRUE(first.clipped);
  EXPECT_GT(first.grad_norm, 0.1);
  EXPECT_FALSE(first.angles.empty());
  const StepReport second = trainer.step();
  EXPECT_TRUE(second.angles.empty());
  EXPECT_FALSE(Trainer(small_recipe({"optim.clip_bound=1e6"}), small_data()).step().clipped);
}

TEST(Trainer, NoStepOfACpuIsAhead) {
  Trainer one(small_recipe(), small_data());
  Trainer two(small_recipe(), small_data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(one.step().loss, two.step({.ahead = true}).loss);
    EXPECT_TRUE(two.settled());
  }
  EXPECT_TRUE(same_bits(one.params().values(), two.params().values()));
}

TEST(Trainer, NothingIsAllocatedAfterTheSecondStep) {
  Trainer trainer(small_recipe({"scheme.base=ngpt"}), small_data());
  trainer.step();
  trainer.step();
  const std::size_t held = trainer.tape().arena().capacity();
  const test::HeapCount count;
  for (int i = 0; i < 3; ++i) trainer.step();
  EXPECT_EQ(count.calls(), 0);
  EXPECT_EQ(trainer.tape().arena().capacity(), held);
}

TEST(Trainer, UnitWeightsStayUnit) {
  Trainer trainer(small_recipe({"scheme.base=ngpt", "optim.lr=0.05"}), small_data());
  EXPECT_LE(unit_norm_error(trainer.params()), 1e-6);
  for (int i = 0; i < 20; ++i) {
    trainer.step();
    EXPECT_LE(unit_norm_error(trainer.params()), 1e-6) << "after step " << i + 1;
  }
}

TEST(Trainer, ADivergedLossIsExplainedAndChangesNothing) {
  Trainer trainer(small_recipe(), small_data());
  trainer.step();
  set_value(trainer.params().value(trainer.params().find("blocks.1.ffn.up.weight")), 0, 0, NAN);
  std::vector<std::byte> before(trainer.params().values().bytes());
  std::memcpy(before.data(), trainer.params().values().data, before.size());
  EXPECT_TRUE(throws<DivergedError>([&] { trainer.step(); },
                                    {"loss", "step 2", "block 1", "mlp", "optim.lr"}));
  EXPECT_EQ(std::memcmp(before.data(), trainer.params().values().data, before.size()), 0);
}

TEST(Trainer, EvaluationDoesNotDependOnTheMicroBatch) {
  Trainer large(small_recipe(), small_data());
  Trainer small(small_recipe({"train.micro_batch=1"}), small_data());
  const Evaluation a = *large.evaluate();
  const Evaluation b = *small.evaluate();
  EXPECT_EQ(a.tokens, 399);
  EXPECT_EQ(b.tokens, 399);
  EXPECT_NEAR(a.loss, b.loss, 1e-6 * a.loss);
}

TEST(Trainer, DataWithTooManyIdsAreRefused) {
  EXPECT_TRUE(throws<RequestError>([] { Trainer(small_recipe({"model.vocab=100"}), small_data()); },
                                   {"256 token ids", "model.vocab is 100"}));
}

TEST(Trainer, CheapValuesMadeAgainHaveTheSameBitsUnderEveryScheme) {
  for (const std::string& scheme : scheme_names()) {
    if (scheme == "dual-patchnorm") continue;  // for images
    const auto run = [&](const char* recompute) {
      auto trainer = std::make_unique<Trainer>(
          small_recipe({"scheme.base=" + scheme, std::string("train.recompute=") + recompute}),
          small_data());
      trainer->step();
      trainer->step();
      return trainer;
    };
    const auto kept = run("none");
    const auto cheap = run("cheap");
    EXPECT_TRUE(same_bits(kept->params().values(), cheap->params().values())) << scheme;
    EXPECT_LT(cheap->memory().activations, kept->memory().activations) << scheme;
  }
}

TEST(Forecast, MemoryIsExactlyWhatARunTakes) {
  for (const char* scheme : {"pre-ln", "ngpt", "weight-norm", "normformer"}) {
    for (const char* recompute : {"none", "cheap", "blocks"}) {
      const Recipe recipe = small_recipe({std::string("scheme.base=") + scheme,
                                          std::string("train.recompute=") + recompute,
                                          "train.micro_batch=2"});
      const Forecast plan = forecast(recipe, small_data());
      Trainer trainer(recipe, small_data());
      trainer.step();
      trainer.step();
      const Trainer::Memory taken = trainer.memory();
      EXPECT_EQ(plan.parameters, trainer.params().count());
      EXPECT_EQ(plan.memory.parameters, taken.parameters);
      EXPECT_EQ(plan.memory.optimizer, taken.optimizer);
      EXPECT_EQ(plan.memory.optimizer_scratch, taken.optimizer_scratch);
      EXPECT_EQ(plan.memory.activations, taken.activations) << scheme << " " << recompute;
    }
  }
}

TEST(Forecast, CountsWhatLooksAtTheTraining) {
  const Recipe watched =
      small_recipe({"train.angle_every=5", "train.sample_every=5", "train.samples=3"});
  const Forecast without = plan_memory(small_recipe(), {});
  const Forecast with = plan_memory(watched, {});
  EXPECT_EQ(without.memory.angles + without.sampling_bytes, 0U);
  Trainer trainer(watched, small_data());
  trainer.step({.angles = true});
  EXPECT_EQ(with.memory.angles, trainer.memory().angles);
  // Samples of more tokens than fit go on from half a context.
  Decoder decoder(trainer.model(), 3);
  decoder.start(std::vector<std::int32_t>{10});
  for (Index i = 0; i < watched.model.context; ++i) decoder.append(std::vector<std::int32_t>(3));
  EXPECT_EQ(with.sampling_bytes, decoder.bytes());
  EXPECT_EQ(with.wanted(), without.wanted() + with.memory.angles + with.sampling_bytes);
}

/// A machine of so many bytes beyond what the process takes.
Forecast on_machine_with(const Recipe& recipe, std::size_t room) {
  Forecast plan = plan_memory(recipe, {});
  plan.machine_bytes = plan.process_bytes + room;
  return plan;
}

TEST(Forecast, WhatIsTooLargeSaysWhatWouldFit) {
  const Recipe recipe = small_recipe({"train.batch=8", "train.recompute=none"});
  const auto wanted = [&](std::vector<std::string> changes) {
    changes.insert(changes.begin(), {"train.batch=8", "train.recompute=none"});
    return plan_memory(small_recipe(changes), {}).wanted();
  };
  const auto answer = [&](std::size_t room) {
    return too_large(recipe, on_machine_with(recipe, room)).value_or("");
  };
  EXPECT_EQ(answer(wanted({})), "");
  const auto ends = [](const std::string& text, const std::string& end) {
    return text.ends_with(end) ? testing::AssertionSuccess() : testing::AssertionFailure() << text;
  };
  EXPECT_TRUE(ends(answer(wanted({}) - 1), "It would fit with train.recompute=cheap."));
  EXPECT_TRUE(ends(answer(wanted({"train.recompute=cheap"}) - 1), "with train.micro_batch=4."));
  EXPECT_TRUE(ends(answer(wanted({"train.micro_batch=1", "train.recompute=blocks"})),
                   "train.micro_batch=1 train.recompute=blocks."));
  Forecast heavy = on_machine_with(recipe, wanted({}));
  heavy.memory.data += 1000;  // whatever the settings are
  EXPECT_TRUE(ends(too_large(recipe, heavy).value_or(""), "with train.recompute=cheap."));
  const std::string never = answer(1000);
  EXPECT_NE(never.find("activations"), std::string::npos) << never;
  EXPECT_NE(never.find("smaller model"), std::string::npos) << never;
}

TEST(Forecast, OptimizerStateIsFourOrEightBytesAParameter) {
  const auto state_bytes = [](const char* name) {
    const PlanningScope plan;
    Settings given = Settings::from_toml("scheme.base = \"dnt\"", "test");
    given.set_assignment(std::string("optim.name=") + name);
    const Trainer trainer(read_recipe(given), {});
    return static_cast<double>(trainer.memory().optimizer) /
           static_cast<double>(trainer.params().count());
  };
  EXPECT_EQ(state_bytes("sgdw"), 4);
  EXPECT_EQ(state_bytes("adamw"), 8);
  EXPECT_EQ(state_bytes("lion"), 4);
}

}  // namespace
}  // namespace norma
