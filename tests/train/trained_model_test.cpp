// The model of a run folder: which checkpoint, what it needs, whether it is the same model.
#include "norma/train/trained_model.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"
#include "tests/support/expect.h"
#include "tests/support/small_recipe.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

using test::small_data;
using test::small_recipe;
using test::throws;

/// A run folder with checkpoints of steps 2 and 4 and the trainer that wrote them.
class ARun {
 public:
  explicit ARun(const std::vector<std::string>& changes)
      : trainer(small_recipe(changes), small_data()) {
    io::FileSystem& disk = io::real_file_system();
    RunFolder run(disk, path(), RunFolder::Open::replace, trainer.recipe(), "");
    io::make_folder(disk, io::join(path(), "checkpoints"));
    for (const Index step : {Index{2}, Index{4}}) {
      trainer.step();
      trainer.step();
      save_checkpoint(disk, path(), trainer, {.step = step});
    }
  }
  std::string path() const { return folder_.path(); }

 private:
  test::TempFolder folder_;

 public:
  Trainer trainer;
};

TEST(TrainedModel, IsTheModelThatWasSaved) {
  const std::string slot = "{norm=\"bn\",statistics=\"position\"}";
  const std::vector<std::vector<std::string>> recipes = {
      {"scheme.base=ngpt"},
      {"scheme.base=pre-ln", "scheme.attn_pre=" + slot},
      {"scheme.base=dnt", "train.precision=\"f64\""}};
  for (const auto& changes : recipes) {
    ARun run(changes);
    TrainedModel trained(io::real_file_system(), run.path());
    EXPECT_EQ(trained.step(), 4);
    EXPECT_TRUE(trained.remarks().empty());
    EXPECT_TRUE(test::same_bits(trained.model().params().values(), run.trainer.params().values()));
    const auto got = trained.model().running();
    const auto want = run.trainer.model().running();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(test::same_bits(got[i]->mean.tensor, want[i]->mean.tensor));
      EXPECT_TRUE(test::same_bits(got[i]->var.tensor, want[i]->var.tensor));
    }
  }
}

TEST(TrainedModel, NeedsNeitherOptimizerNorData) {
  ARun run({});
  const std::string newest = run.path() + "/checkpoints/step-00000004";
  TrainedModel older(io::real_file_system(), run.path(), Index{2});
  EXPECT_EQ(older.step(), 2);
  EXPECT_FALSE(test::same_bits(older.model().params().values(), run.trainer.params().values()));
  EXPECT_TRUE(throws<RequestError>(
      [&] { TrainedModel(io::real_file_system(), run.path(), Index{3}); }, {"step 3", "2, 4"}));
  std::filesystem::resize_file(newest + "/model.safetensors", 100);
  EXPECT_TRUE(throws<Error>([&] { TrainedModel(io::real_file_system(), run.path(), Index{4}); },
                            {"model.safetensors"}));
  TrainedModel fallen_back(io::real_file_system(), run.path());
  EXPECT_EQ(fallen_back.step(), 2);
  EXPECT_EQ(fallen_back.remarks().size(), 1U);
}

TEST(TrainedModel, AFolderThatIsNoRunIsRefused) {
  const test::TempFolder empty;
  EXPECT_TRUE(throws<RequestError>([&] { TrainedModel(io::real_file_system(), empty.path()); },
                                   {"is not a run"}));
}

TEST(TokenizerOfRun, IsBytesWhereTheRunHasNone) {
  const test::TempFolder empty;
  EXPECT_EQ(tokenizer_of_run(empty.path())->name(), "byte");
}

}  // namespace
}  // namespace norma
