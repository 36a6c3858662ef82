// R2: a resumed run comes to the bits of the uninterrupted one.
#include <algorithm>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/io/checkpoints.h"
#include "norma/train/checkpoint.h"
#include "tests/battery/small_run.h"
#include "tests/support/memory_disk.h"

namespace norma::battery {
namespace {

using test::MemoryDisk;

constexpr Index kSteps = 20;

Recipe twenty_steps(const std::vector<std::string>& changes) {
  std::vector<std::string> all = {"train.steps=20", "train.keep_last=1000"};
  all.insert(all.end(), changes.begin(), changes.end());
  return tiny_recipe(all);
}

std::string folder_of(Index step) {
  return io::join(kCheckpoints, io::step_folder_name(static_cast<std::uint64_t>(step)));
}

/// A run that came to its end, as if it had been interrupted after a step.
MemoryDisk interrupted(const MemoryDisk& whole, Index after) {
  MemoryDisk disk = whole;
  io::remove_file(disk, kRun + "/DONE");
  for (Index later = after + 1; later <= kSteps; ++later) {
    io::remove_flat_folder(disk, folder_of(later));
  }
  return disk;
}

/// Resumes after every step of a run and returns how many of them came to other bits.
int resumes_that_differ(const std::vector<std::string>& changes) {
  const Recipe recipe = twenty_steps(changes);
  MemoryDisk whole;
  EXPECT_EQ(run(whole, recipe).end, "");
  const std::string weights = weights_of(whole, kSteps);
  const std::string metrics = metrics_up_to(whole.bytes_of(kRun + "/metrics.jsonl"), kSteps);
  int differ = 0;
  for (Index k = 1; k < kSteps; ++k) {
    MemoryDisk disk = interrupted(whole, k);
    EXPECT_EQ(resume(disk, recipe).end, "");
    differ += weights_of(disk, kSteps) != weights ||
              metrics_up_to(disk.bytes_of(kRun + "/metrics.jsonl"), kSteps) != metrics;
  }
  return differ;
}

class ResumeOf : public testing::TestWithParam<std::string> {};
TEST_P(ResumeOf, AfterEveryStepGivesTheSameBits) {
  std::vector<std::string> changes;
  std::size_t at = 0;
  const std::string& all = GetParam();
  while (at < all.size()) {
    const std::size_t end = std::min(all.find(' ', at), all.size());
    changes.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  EXPECT_EQ(resumes_that_differ(changes), 0);
  std::printf("R2: %s: resumed after each of 19 steps, the same bits\n", all.c_str());
}
INSTANTIATE_TEST_SUITE_P(Runs,
                         ResumeOf,
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

/// A checkpoint that a signal had taken before the evaluation of its step was there.
TEST(Resume, MakesUpForAnEvaluationThatWasBrokenOff) {
  const Recipe recipe = twenty_steps({"train.eval_every=2"});
  MemoryDisk whole;
  EXPECT_EQ(run(whole, recipe).end, "");
  const std::string metrics = metrics_up_to(whole.bytes_of(kRun + "/metrics.jsonl"), kSteps);
  for (const Index k : {2, 10, 20}) {
    MemoryDisk disk = interrupted(whole, k);
    const std::string all = disk.bytes_of(kRun + "/metrics.jsonl");
    const std::size_t begin = all.find(say("{\"step\":", k, ","));
    const std::size_t end = all.find(",\"val/loss\"", begin);
    Trainer trainer(recipe, tiny_data());
    load_checkpoint(disk, folder_of(k), trainer);
    io::remove_flat_folder(disk, folder_of(k));
    save_checkpoint(
        disk,
        kRun,
        trainer,
        {.step = k, .elapsed_ms = 0, .open = {.metrics = all.substr(begin, end - begin) + "}"}});
    EXPECT_EQ(resume(disk, recipe).end, "");
    EXPECT_EQ(metrics_up_to(disk.bytes_of(kRun + "/metrics.jsonl"), kSteps), metrics);
    EXPECT_EQ(weights_of(disk, kSteps), weights_of(whole, kSteps));
  }
}

enum class Forgets : std::uint8_t { nothing, optimizer, data_position, step_of_optimizer };

/// The twin: goes on by hand from every step, forgets something of the checkpoint on the way, and
/// returns how many came to other weights.
int forgetful_resumes_that_differ(Forgets what) {
  const Recipe recipe = twenty_steps({});
  MemoryDisk whole;
  EXPECT_EQ(run(whole, recipe).end, "");
  int differ = 0;
  for (Index k = 1; k < kSteps; ++k) {
    MemoryDisk disk = interrupted(whole, k);
    Trainer trainer(recipe, tiny_data());
    load_checkpoint(disk, folder_of(k), trainer);
    if (what == Forgets::optimizer) trainer.start_anew();
    if (what == Forgets::data_position) trainer.set_steps_done(0);
    if (what == Forgets::step_of_optimizer) {
      for (const StateTensor& state : trainer.optimizer().state()) {
        if (state.name == "step") set_value(state.tensor, 0, 0, 0);
      }
    }
    for (Index step = k; step < kSteps; ++step) trainer.step();
    save_checkpoint(disk, kRun, trainer, {.step = kSteps, .elapsed_ms = 0});
    differ += weights_of(disk, kSteps) != weights_of(whole, kSteps);
  }
  return differ;
}
TEST(ResumeTwin, WhatIsForgottenIsSeen) {
  EXPECT_EQ(forgetful_resumes_that_differ(Forgets::nothing), 0);
  EXPECT_EQ(forgetful_resumes_that_differ(Forgets::optimizer), 19);
  EXPECT_EQ(forgetful_resumes_that_differ(Forgets::data_position), 19);
  EXPECT_EQ(forgetful_resumes_that_differ(Forgets::step_of_optimizer), 19);
}

}  // namespace
}  // namespace norma::battery
