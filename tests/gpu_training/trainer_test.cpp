// Whole steps on a GPU: every scheme and every optimizer against the CPU, graphs that are replayed,
// what is made again in backward, micro-batches, masks, evaluation and the decoder.
#include "norma/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/fields.h"
#include "norma/base/text.h"
#include "norma/generate/decoder.h"
#include "norma/nn/catalogue.h"
#include "norma/tensor/plain.h"
#include "norma/train/forecast.h"
#include "tests/support/expect.h"
#include "tests/support/needs_gpu.h"
#include "tests/support/small_recipe.h"
#include "tests/support/test_name.h"

namespace norma {
namespace {

using test::same_bits;
using test::small_data;
using test::small_recipe;

using Changes = std::vector<std::string>;

Recipe gpu_recipe(Changes changes, const char* precision) {
  changes.insert(changes.end(), {"train.device=cuda", say("train.precision=", precision)});
  return small_recipe(changes);
}

/// Losses of the first steps, and of an evaluation after them. The first step queues kernel by
/// kernel, the second is captured, the others are replayed.
std::vector<double> losses_of(const Recipe& recipe) {
  Trainer trainer(recipe, small_data());
  std::vector<double> losses(5);
  std::generate_n(losses.begin(), 4, [&] { return trainer.step().loss; });
  losses.back() = trainer.evaluate()->loss;
  return losses;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double within) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], within * want[i]) << "of step " << i + 1;
  }
}

class GpuScheme : public testing::TestWithParam<std::string> {};

TEST_P(GpuScheme, TrainsAsOnTheCpu) {
  NORMA_NEEDS_GPU();
  const std::string scheme = say("scheme.base=", GetParam());
  const std::vector<double> cpu = losses_of(small_recipe({scheme}));
  expect_near(losses_of(gpu_recipe({scheme}, "f32")), cpu, 1e-5);
  expect_near(losses_of(gpu_recipe({scheme}, "bf16")), cpu, 1e-2);
}

INSTANTIATE_TEST_SUITE_P(All, GpuScheme, testing::ValuesIn(scheme_names()), test::test_name);

class GpuOptimizerRun : public testing::TestWithParam<std::string> {
 protected:
  /// With the optimizer's own defaults: what one of them needs another refuses.
  static Recipe recipe(const Changes& changes) {
    Settings given = Settings::from_toml(R"(
model = { layers = 2, width = 16, heads = 2, context = 12, vocab = 256 }
scheme = { base = "ngpt" }
optim = { lr = 1e-3 }
train = { steps = 20, batch = 4 }
)",
                                         "test");
    given.set_assignment(say("optim.name=", GetParam()));
    for (const std::string& change : changes) given.set_assignment(change);
    return read_recipe(given);
  }
};

/// How the weights have moved in four steps.
std::vector<double> moved_by(const Recipe& recipe) {
  Trainer trainer(recipe, small_data());
  const OwnedTensor before = host_copy(trainer.params().values());
  for (int i = 0; i < 4; ++i) trainer.step();
  const OwnedTensor after = host_copy(trainer.params().values());
  std::vector<double> way(static_cast<std::size_t>(before.tensor.count()));
  for (std::size_t i = 0; i < way.size(); ++i) {
    const auto at = static_cast<Index>(i);
    way[i] = value_at(after.tensor, 0, at) - value_at(before.tensor, 0, at);
  }
  return way;
}

/// Losses would hardly tell a wrong step from a right one.
TEST_P(GpuOptimizerRun, MovesTheWeightsAsOnTheCpu) {
  NORMA_NEEDS_GPU();
  const std::vector<double> cpu = moved_by(recipe({}));
  const std::vector<double> gpu = moved_by(recipe({"train.device=cuda", "train.precision=f32"}));
  ASSERT_EQ(gpu.size(), cpu.size());
  double apart = 0;
  double all = 0;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    apart += (gpu[i] - cpu[i]) * (gpu[i] - cpu[i]);
    all += cpu[i] * cpu[i];
  }
  ASSERT_GT(all, 0);
  EXPECT_LT(std::sqrt(apart / all), 5e-3);
}

TEST_P(GpuOptimizerRun, StepsAheadHaveTheBitsOfStepsThatAreWaitedFor) {
  NORMA_NEEDS_GPU();
  const auto weights = [&](bool ahead) {
    Trainer trainer(recipe({"train.device=cuda", "train.precision=bf16"}), small_data());
    for (int i = 0; i < 5; ++i) trainer.step({.ahead = ahead && i < 4});
    return host_copy(trainer.params().values());
  };
  EXPECT_TRUE(same_bits(weights(true).tensor, weights(false).tensor));
}

std::vector<std::string> optimizers() {
  constexpr const auto& kAll = Words<OptimName>::kAll;
  std::vector<std::string> names(kAll.size());
  std::transform(
      kAll.begin(), kAll.end(), names.begin(), [](const auto& one) { return one.first; });
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, GpuOptimizerRun, testing::ValuesIn(optimizers()), test::test_name);

TEST(GpuTrainer, MasksAndMicroBatchesAreThoseOfTheCpu) {
  NORMA_NEEDS_GPU();
  for (const Changes& changes : {Changes{"model.dropout=0.2"},
                                 Changes{"model.drop_path=0.3"},
                                 Changes{"train.micro_batch=2", "model.dropout=0.2"}}) {
    expect_near(losses_of(gpu_recipe(changes, "f32")), losses_of(small_recipe(changes)), 1e-5);
  }
}

TEST(GpuTrainer, MicroBatchesAddUpToTheBatch) {
  NORMA_NEEDS_GPU();
  const std::vector<double> whole = losses_of(gpu_recipe({}, "f32"));
  expect_near(losses_of(gpu_recipe({"train.micro_batch=1"}, "f32")), whole, 1e-6);
}

TEST(GpuTrainer, WhatIsMadeAgainHasTheSameBits) {
  NORMA_NEEDS_GPU();
  for (const char* scheme : {"dnt", "ngpt", "pre-ln", "hybridnorm"}) {
    const auto weights = [&](const char* recompute) {
      Trainer trainer(
          gpu_recipe({say("scheme.base=", scheme), say("train.recompute=", recompute)}, "bf16"),
          small_data());
      for (int i = 0; i < 3; ++i) trainer.step();
      return host_copy(trainer.params().values());
    };
    const OwnedTensor kept = weights("none");
    for (const char* recompute : {"auto", "cheap", "blocks"}) {
      EXPECT_TRUE(same_bits(weights(recompute).tensor, kept.tensor)) << scheme << " " << recompute;
    }
  }
}

TEST(GpuTrainer, StepsAheadHaveTheBitsOfStepsThatAreWaitedFor) {
  NORMA_NEEDS_GPU();
  for (const Changes& changes : {Changes{"scheme.base=ngpt"},
                                 Changes{"scheme.base=dnt", "train.micro_batch=2"},
                                 Changes{"model.dropout=0.2"}}) {
    Trainer waits(gpu_recipe(changes, "bf16"), small_data());
    Trainer hurries(gpu_recipe(changes, "bf16"), small_data());
    for (int i = 0; i < 8; ++i) {
      const StepReport one = waits.step({.angles = i == 6});
      const StepReport other = hurries.step({.angles = i == 6, .ahead = i < 5});
      EXPECT_EQ(other.step, one.step);
      EXPECT_EQ(other.loss, one.loss) << i;
      EXPECT_EQ(other.grad_norm, one.grad_norm) << i;
      EXPECT_EQ(other.lr, one.lr) << i;
      EXPECT_EQ(other.angles.size(), one.angles.size()) << i;
    }
    EXPECT_TRUE(hurries.settled());
    EXPECT_TRUE(same_bits(host_copy(hurries.params().values()).tensor,
                          host_copy(waits.params().values()).tensor));
  }
}

TEST(GpuTrainer, ADivergedStepLeavesTheWeightsAndSoDoesTheOneAheadOfIt) {
  NORMA_NEEDS_GPU();
  for (const bool ahead : {false, true}) {
    Trainer trainer(gpu_recipe({"scheme.base=ngpt"}, "bf16"), small_data());
    for (int i = 0; i < 3; ++i) trainer.step();
    // Vectors have no copy in bf16: what is set here is what the next step reads.
    const auto& all = trainer.params().params();
    const auto vector = std::find_if(
        all.begin(), all.end(), [](const Param& param) { return param.shape.rank() == 1; });
    ASSERT_NE(vector, all.end());
    set_value(trainer.params().value(*vector), 0, 0, NAN);
    const OwnedTensor before = host_copy(trainer.params().values());
    EXPECT_TRUE(test::throws<DivergedError>([&] { trainer.step({.ahead = ahead}); },
                                            {"loss", "step 4", "optim.lr"}));
    EXPECT_TRUE(same_bits(host_copy(trainer.params().values()).tensor, before.tensor));
    EXPECT_TRUE(test::throws<Error>([&] { trainer.step(); }, {"cannot go on"}));
  }
}

TEST(GpuTrainer, NobodyLooksAtWeightsWithAStepAhead) {
  NORMA_NEEDS_GPU();
  Trainer trainer(gpu_recipe({}, "bf16"), small_data());
  for (int i = 0; i < 3; ++i) trainer.step({.ahead = true});
  EXPECT_FALSE(trainer.settled());
  EXPECT_TRUE(test::throws<Error>([&] { trainer.evaluate(); }, {"step 3", "step 4"}));
  trainer.step();
  EXPECT_TRUE(trainer.evaluate());
  trainer.step({.ahead = true});  // the trainer goes with a step on its way
}

TEST(GpuTrainer, TakesTheMemoryThatWasPlanned) {
  NORMA_NEEDS_GPU();
  for (const char* recompute : {"auto", "blocks"}) {
    const Recipe recipe =
        gpu_recipe({say("train.recompute=", recompute), "train.angle_every=1"}, "bf16");
    const Trainer::Memory planned = plan_memory(recipe, {}).memory;
    Trainer trainer(recipe, small_data());
    trainer.step({.angles = true});
    trainer.step({.angles = true});
    const Trainer::Memory taken = trainer.memory();
    EXPECT_EQ(planned.activations, taken.activations);
    EXPECT_EQ(planned.parameters, taken.parameters);
    EXPECT_EQ(planned.optimizer, taken.optimizer);
    EXPECT_EQ(planned.angles, taken.angles);
  }
}

TEST(GpuTrainer, WithoutMastersMatricesHoldWhatBf16Can) {
  NORMA_NEEDS_GPU();
  Trainer trainer(gpu_recipe({"scheme.base=ngpt"}, "bf16_storage"), small_data());
  for (int i = 0; i < 3; ++i) trainer.step();
  Index lost = 0;
  for (const Param& param : trainer.params().params()) {
    const OwnedTensor values = host_copy(trainer.params().value(param));
    for (Index i = 0; i < param.count(); ++i) {
      const float value = values.tensor.as<const float>()[i];
      const bool held = to_float(to_bf16(value)) == value;
      if (param.shape.rank() > 1) {
        ASSERT_TRUE(held) << param.name << " " << i;
      } else {
        lost += held ? 0 : 1;
      }
    }
  }
  EXPECT_GT(lost, 0) << "vectors stay in f32";
}

TEST(GpuDecoder, WritesWhatTheCpuDoes) {
  NORMA_NEEDS_GPU();
  for (const char* scheme : {"dnt", "ngpt"}) {
    const std::string base = say("scheme.base=", scheme);
    Trainer cpu(small_recipe({base}), small_data());
    Trainer gpu(gpu_recipe({base}, "f32"), small_data());
    Decoder here(cpu.model(), 2);
    Decoder there(gpu.model(), 2);
    const std::vector<std::int32_t> prompt{116, 104, 101};
    here.start(prompt);
    there.start(prompt);
    for (std::int32_t i = 0; i < 20; ++i) {  // beyond the context of twelve
      for (Index sample = 0; sample < 2; ++sample) {
        for (Index id = 0; id < 256; ++id) {
          ASSERT_NEAR(
              value_at(there.logits(), sample, id), value_at(here.logits(), sample, id), 1e-4)
              << scheme << " token " << i;
        }
      }
      const std::vector<std::int32_t> next{97 + i, 98 + i};
      here.append(next);
      there.append(next);
    }
  }
}

}  // namespace
}  // namespace norma
