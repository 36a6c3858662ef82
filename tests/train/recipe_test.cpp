#include "norma/train/recipe.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/tensor/planning.h"
#include "tests/support/expect.h"
#include "tests/support/small_recipe.h"

namespace norma {
namespace {

using test::throws;

Recipe read(const std::string& toml) { return read_recipe(Settings::from_toml(toml, "r.toml")); }

TEST(Recipe, TheSchemeAsksAndTheRecipeDecides) {
  const Recipe asked = read("scheme.base = \"ngpt\"");
  EXPECT_EQ(asked.model.positions, Positions::rope);
  EXPECT_FALSE(asked.model.tied);
  EXPECT_EQ(asked.resolved.find("model.tied")->origin, "scheme ngpt");
  const Recipe decided = read("scheme.base = \"ngpt\"\nmodel.tied = true");
  EXPECT_TRUE(decided.model.tied);
  EXPECT_EQ(decided.resolved.find("model.tied")->origin, "r.toml:2");
}

TEST(Recipe, TheTableOfTheChosenOptimizerCounts) {
  const std::string toml =
      "optim.name = \"adamw\"\noptim.lr = 9\n[optim.adamw]\nlr = 1e-3\nbeta2 = 0.9\n"
      "[optim.sgdw]\nlr = 1.0\nmomentum = 0.8\n";
  EXPECT_EQ(read(toml).optim.lr, 1e-3);
  Settings given = Settings::from_toml(toml, "r.toml");
  given.set_assignment("optim.name=sgdw");
  EXPECT_EQ(read_recipe(given).optim.momentum, 0.8);
  EXPECT_EQ(read_recipe(given).optim.lr, 1.0);
  given.set_assignment("optim.lr=0.5");
  EXPECT_EQ(read_recipe(given).optim.lr, 0.5);
}

TEST(Recipe, ASchemeCanBeChangedInPlace) {
  const Recipe recipe = read("[scheme]\nbase = \"dnt\"\nffn_pre = \"ln\"\nq.eps = 1e-3\n");
  EXPECT_EQ(recipe.scheme.block[Site::ffn_pre].norm, NormKind::layer);
  EXPECT_EQ(recipe.scheme.block[Site::q].norm, NormKind::rms);
  EXPECT_EQ(recipe.scheme.block[Site::q].eps, 1e-3);
  EXPECT_EQ(recipe.scheme.name, "dnt-s5+");
}

TEST(Recipe, WhatWasResolvedReadsBackTheSame) {
  for (const std::string& name : scheme_names()) {
    const Recipe recipe = read(say("scheme.base = \"", name, "\"\noptim.lr = 0.123"));
    const Recipe again = read(recipe_text(recipe));
    EXPECT_EQ(again.scheme.block, recipe.scheme.block) << name;
    EXPECT_EQ(again.scheme.layers.size(), recipe.scheme.layers.size()) << name;
    EXPECT_EQ(again.scheme.weights, recipe.scheme.weights) << name;
    EXPECT_EQ(again.scheme.decay, recipe.scheme.decay) << name;
    EXPECT_EQ(again.scheme.attention, recipe.scheme.attention) << name;
    EXPECT_EQ(again.scheme.scales, recipe.scheme.scales) << name;
    EXPECT_EQ(again.scheme.name, recipe.scheme.name) << name;
    EXPECT_EQ(again.model.tied, recipe.model.tied) << name;
    EXPECT_EQ(again.train.z_loss, recipe.train.z_loss) << name;
    EXPECT_EQ(again.optim.lr, 0.123) << name;
  }
}

TEST(Recipe, RefusalsAreSentences) {
  const auto refused = [](const std::string& toml, std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(throws<RequestError>([&] { read(toml); }, parts)) << toml;
  };
  refused("scheme.base = \"pre-lm\"", {"there is no scheme pre-lm", "Did you mean pre-ln"});
  refused("scheme.base = \"dnt\"\nscheme.attn_prenorm = \"rms\"", {"attn_prenorm", "attn_pre"});
  refused("scheme.base = \"dnt\"\nscheme.attn_pre = \"rsm\"", {"attn_pre.norm", "\"rsm\"", "rms"});
  refused("optim.name = \"adamv\"", {"optim.name", "adamv", "adamw"});
  refused("optim.learning_rate = 1", {"optim.learning_rate"});
  refused("train.steps = 0", {"train.steps", "between 1 and"});
  refused("optim.lr = -1", {"optim.lr", "between 0"});
  refused("train.batch = 4\ntrain.micro_batch = 3", {"must divide", "3"});
  refused("train.device = \"gpu\"", {"train.device", "cpu"});
  refused("train.precision = \"bf16\"", {"precision = bf16 needs", "device = cuda"});
  refused("train.precision = \"bf16_storage\"", {"bf16_storage needs", "device = cuda"});
  refused("train.precision = \"f64\"\ntrain.device = \"cuda\"", {"f64 needs", "device = cpu"});
  refused("train.device = \"cuda\"\nmodel = { width = 1024, heads = 2 }", {"256 wide, got 512"});
  refused("schedule.warmup = 1000\ntrain.steps = 100", {"warmup"});
  refused("[scheme]\nattn_pre = \"rms\"", {"undecided", "attn_mid"});
  refused("scheme.base = \"pre-ln\"\nscheme.attn_pre = { norm = \"bn\", statistics = \"all\" }",
          {"causal", "future", "force = true"});
  refused("scheme.base = \"ngpt\"\nscheme.decay = \"nanogpt\"", {"length 1", "decay.embedding"});
}

TEST(Recipe, PrecisionSaysWhatIsMultipliedAndWhatIsKept) {
  const auto of = [](std::string_view word) {
    const Recipe recipe = read(say("train = { device = \"cuda\", precision = \"", word, "\" }"));
    return std::pair{recipe.dtype(), recipe.masters()};
  };
  EXPECT_EQ(of("f32").first, DType::f32);
  EXPECT_EQ(of("bf16"), std::pair(DType::bf16, Masters::f32));
  EXPECT_EQ(of("bf16_storage"), std::pair(DType::bf16, Masters::none));
  const Recipe elsewhere = read("train = { device = \"cuda\", precision = \"bf16_storage\" }");
  EXPECT_EQ(elsewhere.dtype_on({}), DType::f32);
}

TEST(Recipe, BatchNormOverAllPositionsCanBeForcedAndWarns) {
  const Recipe recipe = read(
      "scheme.base = \"pre-ln\"\nscheme.attn_pre = { norm = \"bn\", statistics = \"all\", force = "
      "true }");
  ASSERT_EQ(recipe.warnings.size(), 1U);
  EXPECT_NE(recipe.warnings[0].find("future"), std::string::npos);
}

class RecipeFile : public testing::TestWithParam<std::string> {};

/// Every recipe of the tree can be built; nothing is allocated for that.
TEST_P(RecipeFile, IsSound) {
  const Recipe recipe = load_recipe(say(NORMA_SOURCE_DIR, "/recipes/", GetParam(), ".toml"), {});
  const PlanningScope plan;
  const Trainer trainer(recipe, {});
  EXPECT_GT(trainer.params().count(), 500000);
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(NORMA_SOURCE_DIR) / "recipes")) {
    names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Recipes,
                         RecipeFile,
                         testing::ValuesIn(recipe_names()),
                         [](const testing::TestParamInfo<std::string>& recipe) {
                           std::string name = recipe.param;
                           for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
                           return name;
                         });

TEST(Recipe, ALongDeviceIsCutInItsSentence) {
  const std::string toml = "train.device = \"" + std::string(100'000, 'x') + "\"\n";
  try {
    read_recipe(Settings::from_toml(toml, "long.toml"));
    ADD_FAILURE() << "it was taken";
  } catch (const RequestError& error) {
    EXPECT_LT(std::string(error.what()).size(), 2000U);
  }
}

}  // namespace
}  // namespace norma
