// R1, R2, R3: the same seed gives the same bits, a resumed run too, and a sequence's loss does not
// depend on its neighbours in the batch.
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/checkpoints.h"
#include "norma/train/trainer.h"
#include "tests/battery/small_run.h"
#include "tests/support/memory_disk.h"

namespace norma::battery {
namespace {

using test::MemoryDisk;

TEST(SameSeed, TwiceAndForOneAndTwoThreads) {
  const Recipe recipe = tiny_recipe({"train.steps=50",
                                     "train.batch=8",
                                     "train.checkpoint_every=0",
                                     "train.eval_every=10",
                                     "model.dropout=0.1"});
  std::vector<std::string> metrics;
  std::vector<std::string> weights;
  for (const int threads : {1, 1, 2, 2}) {
    const ThreadScope scope(threads);
    const Reference reference(recipe);
    metrics.push_back(metrics_up_to(reference.metrics, 50));
    weights.push_back(reference.weights);
  }
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(metrics[i], metrics[0]);
    EXPECT_EQ(weights[i], weights[0]);
  }
  const Reference other(
      tiny_recipe({"train.steps=50", "train.seed=2", "train.checkpoint_every=0"}));
  EXPECT_NE(other.weights, weights[0]);  // the twin: another seed is seen
  std::printf("R1: 4 runs of 50 steps with 1 and 2 threads, the same bits\n");
}

/// Resumes after every step of a run and returns how many of them came to other bits.
int resumes_that_differ(const std::vector<std::string>& changes, bool forget_optimizer) {
  std::vector<std::string> all = {"train.steps=20", "train.keep_last=1000"};
  all.insert(all.end(), changes.begin(), changes.end());
  const Recipe recipe = tiny_recipe(all);
  MemoryDisk whole;
  const Story story = run(whole, recipe);
  EXPECT_EQ(story.end, "");
  const std::string weights = weights_of(whole, 20);
  const std::string metrics = metrics_up_to(whole.bytes_of(kRun + "/metrics.jsonl"), 20);
  int differ = 0;
  for (Index k = 1; k < 20; ++k) {
    MemoryDisk disk = whole;
    io::remove_file(disk, kRun + "/DONE");
    for (Index later = k + 1; later <= 20; ++later) {
      io::remove_flat_folder(
          disk, io::join(kCheckpoints, io::step_folder_name(static_cast<std::uint64_t>(later))));
    }
    Recipe resumed = recipe;
    if (forget_optimizer) resumed = tiny_recipe({"train.steps=20", "train.seed=2"});
    EXPECT_EQ(resume(disk, resumed).end, "");
    differ += weights_of(disk, 20) != weights ||
              metrics_up_to(disk.bytes_of(kRun + "/metrics.jsonl"), 20) != metrics;
  }
  return differ;
}

class Resume : public testing::TestWithParam<std::string> {};
TEST_P(Resume, AfterEveryStepGivesTheSameBits) {
  std::vector<std::string> changes;
  std::size_t at = 0;
  const std::string& all = GetParam();
  while (at < all.size()) {
    const std::size_t end = std::min(all.find(' ', at), all.size());
    changes.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_EQ(resumes_that_differ(changes, false), 0);
  std::printf("R2: %s: resumed after each of 19 steps, the same bits\n", all.c_str());
}
INSTANTIATE_TEST_SUITE_P(Runs,
                         Resume,
                         testing::Values("train.batch=4 train.micro_batch=2",
                                         "train.eval_every=3",
                                         "model.dropout=0.2 train.angle_every=4",
                                         "scheme.base=ngpt",
                                         "schedule.name=cosine schedule.warmup=5",
                                         "optim.name=sgdw",
                                         "optim.name=sgd",
                                         "optim.name=adam",
                                         "optim.name=gated_adamw",
                                         "optim.name=lion",
                                         "optim.name=adagrad",
                                         "optim.name=rmsprop optim.momentum=0.9",
                                         "optim.name=signsgd optim.momentum=0.9",
                                         "optim.name=lars",
                                         "optim.name=muon",
                                         "optim.name=riemannian_adam scheme.base=ngpt-riemann",
                                         "optim.name=tangent_adam scheme.base=ngpt"));
TEST(ResumeTwin, AnotherDataOrderIsSeen) { EXPECT_EQ(resumes_that_differ({}, true), 19); }

/// Losses of the tokens of `sequences`, computed `batch` at a time.
std::vector<float> token_losses(const std::string& scheme, Index batch, bool training) {
  constexpr Index kSequences = 8;
  Trainer trainer(tiny_recipe({say("scheme.base=", scheme), "model.context=16"}), tiny_data());
  const Index length = trainer.recipe().model.context;
  const TrainWindows windows(trainer.data().train, length, 1);
  std::vector<float> losses;
  for (Index first = 0; first < kSequences; first += batch) {
    const Index rows = std::min(batch, kSequences - first);
    const OwnedTensor ids({rows, length}, DType::i32);
    const OwnedTensor targets({rows * length}, DType::i32);
    windows.fill(static_cast<std::uint64_t>(first), ids.tensor, targets.tensor);
    trainer.tape().reset();
    const Var values = trainer.tape().evaluate([&] {
      return trainer.model()
          .loss(trainer.tape(), ids.tensor, targets.tensor, {}, {.training = training})
          .token_losses;
    });
    for (Index i = 0; i < rows * length; ++i) {
      losses.push_back(static_cast<float>(value_at(values.value(), 0, i)));
    }
  }
  return losses;
}

TEST(BatchInvariance, ALossDoesNotDependOnTheNeighbours) {
  for (const char* scheme : {"dnt", "pre-ln", "ngpt", "post-ln"}) {
    const std::vector<float> one = token_losses(scheme, 1, false);
    for (const Index batch : {2, 3, 7, 8}) {
      const std::vector<float> more = token_losses(scheme, batch, false);
      ASSERT_EQ(more.size(), one.size());
      EXPECT_EQ(std::memcmp(more.data(), one.data(), one.size() * sizeof(float)), 0)
          << scheme << ", batch " << batch;
    }
  }
  std::printf("R3: batches of 1, 2, 3, 7, 8 with 16 tokens a sequence, the same bits\n");
}

}  // namespace
}  // namespace norma::battery
