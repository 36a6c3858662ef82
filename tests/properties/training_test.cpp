// Properties 21 and 40: what holds along a run.
#include <cmath>
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/file_system.h"
#include "norma/tensor/plain.h"
#include "norma/train/checkpoint.h"
#include "norma/train/trainer.h"
#include "tests/properties/tiny_gpt.h"
#include "tests/support/expect.h"
#include "tests/support/temp_folder.h"

namespace norma::test {
namespace {

/// Bytes with a pattern that can be learned, in memory.
TokenData some_tokens() {
  constexpr std::size_t kCount = 4000;
  auto bytes = std::make_shared<std::vector<std::byte>>(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint32_t noise = random_word({3, 1}, i) % 4;
    (*bytes)[i] = static_cast<std::byte>((i % 16 * 3 + noise) % 61);
  }
  TokenData data;
  data.train = {bytes->data(), static_cast<Index>(kCount) - 400, 1};
  data.val = data.train.part(0, 400);
  data.vocab = 61;
  data.owner = bytes;
  return data;
}

Recipe recipe_of(const std::string& more) {
  Settings settings = Settings::from_toml(
      "[model]\nlayers = 2\nwidth = 32\nheads = 4\nkv_heads = 2\ncontext = 13\nvocab = 61\n"
      "[train]\nsteps = 20\nbatch = 12\n[optim]\nlr = 3e-3\n",
      "test");
  const Settings changes = Settings::from_toml(more, "test");
  for (const Settings::Entry& entry : changes.entries()) settings.set(entry);
  return read_recipe(settings);
}

std::vector<double> losses_of(const std::string& more, int steps) {
  Trainer trainer(recipe_of(more), some_tokens());
  std::vector<double> losses;
  losses.reserve(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

/// The largest | |w| − 1 | over the vectors of length d of every matrix, by the names of matrices.
double unit_error(const ParamStore& params) {
  double worst = 0;
  for (const Param& param : params.params()) {
    if (param.shape.rank() != 2) continue;
    const bool columns =
        param.name.ends_with("attn.out.weight") || param.name.ends_with("ffn.down.weight");
    const Tensor w = params.value(param);
    const Index vectors = columns ? w.shape.cols() : w.shape.rows();
    const Index length = columns ? w.shape.rows() : w.shape.cols();
    for (Index v = 0; v < vectors; ++v) {
      double squares = 0;
      for (Index i = 0; i < length; ++i) {
        squares += std::pow(columns ? value_at(w, i, v) : value_at(w, v, i), 2);
      }
      worst = std::max(worst, std::abs(std::sqrt(squares) - 1));
    }
  }
  return worst;
}

TEST(Property, P21_AllVectorsAreUnitAfterEveryStepOfEveryOptimizer) {
  for (const char* optimizer :
       {"adamw", "sgdw", "muon", "lion", "riemannian_adam", "adagrad", "gated_adamw"}) {
    SCOPED_TRACE(optimizer);
    Trainer trainer(
        recipe_of(
            say("scheme.base = \"ngpt\"\noptim.name = \"", optimizer, "\"\noptim.lr = 1e-2\n")),
        some_tokens());
    EXPECT_LE(unit_error(trainer.params()), 1e-6) << "at the start";
    const OwnedTensor start = copy_of(trainer.params().values());
    for (int i = 0; i < 4; ++i) {
      trainer.step();
      ASSERT_LE(unit_error(trainer.params()), 1e-6) << "after step " << i + 1;
    }
    EXPECT_GT(distance(trainer.params().values(), start.tensor), 1e-5) << "nothing moved";
  }
  Trainer free(recipe_of("scheme.base = \"pre-rms\""), some_tokens());
  EXPECT_GT(unit_error(free.params()), 0.1);
}

TEST(Property, P21_AllVectorsAreUnitAfterACheckpointAndBeyond) {
  for (const char* precision : {"f32", "f64"}) {
    const TempFolder folder;
    const Recipe recipe =
        recipe_of(say("scheme.base = \"ngpt\"\ntrain.precision = \"", precision, "\"\n"));
    Trainer first(recipe, some_tokens());
    for (int i = 0; i < 3; ++i) first.step();
    io::FileSystem& disk = io::real_file_system();
    disk.make_folder(folder / "checkpoints");
    const std::string at = save_checkpoint(disk, folder.path(), first, {.step = 3});
    Trainer resumed(recipe, some_tokens());
    load_checkpoint(disk, at, resumed);
    EXPECT_LE(unit_error(resumed.params()), 1e-6) << "after loading";
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(resumed.step().loss, first.step().loss);
      EXPECT_LE(unit_error(resumed.params()), 1e-6);
    }
    EXPECT_TRUE(same_bits(resumed.params().values(), first.params().values()));
    Trainer looking(recipe, some_tokens());
    load_model(disk, at, looking.model());
    EXPECT_LE(unit_error(looking.params()), 1e-6) << "loaded for evaluation";
  }
}

TEST(Property, P40_TheSameSeedGivesTheSameLosses) {
  const ThreadScope one(1);
  for (const char* base : {"pre-ln", "dnt", "ngpt"}) {
    const std::string scheme = say("scheme.base = \"", base, "\"\nmodel.dropout = 0.1\n");
    const std::vector<double> first = losses_of(scheme, 6);
    EXPECT_EQ(losses_of(scheme, 6), first) << base;
    EXPECT_NE(losses_of(scheme + "train.seed = 2\n", 6), first) << base;
  }
}

TEST(Property, P40_MicroBatchesAddUpToTheBatch) {
  for (const char* base : {"pre-ln", "dnt", "ngpt", "olmo2"}) {
    for (const char* precision : {"f32", "f64"}) {
      const std::string scheme =
          say("scheme.base = \"", base, "\"\ntrain.precision = \"", precision, "\"\n");
      const double limit = std::string(precision) == "f32" ? 1e-5 : 1e-10;
      Trainer whole(recipe_of(scheme), some_tokens());
      Trainer parts(recipe_of(scheme + "train.micro_batch = 3\n"), some_tokens());
      for (int i = 0; i < 5; ++i) {
        const StepReport want = whole.step();
        const StepReport got = parts.step();
        EXPECT_NEAR(got.loss, want.loss, limit * want.loss) << base << " step " << i;
        if (i == 0) {
          EXPECT_NEAR(got.grad_norm, want.grad_norm, limit * want.grad_norm);
          EXPECT_LE(distance(parts.params().grads(), whole.params().grads()), limit) << base;
        }
      }
    }
  }
}

TEST(Property, P40_MicroBatchesAddUpUnderDropout) {
  const std::string scheme =
      "scheme.base = \"pre-ln\"\nmodel.dropout = 0.2\nmodel.drop_path = 0.3\ntrain.precision = "
      "\"f64\"\n";
  Trainer whole(recipe_of(scheme), some_tokens());
  Trainer parts(recipe_of(scheme + "train.micro_batch = 3\n"), some_tokens());
  EXPECT_NEAR(parts.step().loss, whole.step().loss, 1e-10);
  EXPECT_LE(distance(parts.params().grads(), whole.params().grads()), 1e-10);
}

/// Statistics of a batch are not sums over sequences: there the property cannot hold.
TEST(Property, P40_BatchNormSeesMicroBatches) {
  const std::string scheme =
      "scheme.base = \"pre-ln\"\nscheme.attn_pre = { norm = \"bn\" }\ntrain.precision = \"f64\"\n";
  Trainer whole(recipe_of(scheme), some_tokens());
  Trainer parts(recipe_of(scheme + "train.micro_batch = 3\n"), some_tokens());
  const double want = whole.step().loss;
  EXPECT_GT(std::abs(parts.step().loss - want), 1e-6);
}

}  // namespace
}  // namespace norma::test
