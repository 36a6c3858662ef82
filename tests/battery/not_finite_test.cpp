// N1: a value that is not finite, put into weights, activations, gradients, optimizer state or
// running statistics, is caught in the step that meets it, named, and never saved.
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/io/stored_type.h"
#include "norma/train/checkpoint.h"
#include "norma/train/trainer.h"
#include "tests/battery/small_run.h"
#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"

namespace norma::battery {
namespace {

using test::MemoryDisk;
using test::throws;

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::string kWeight = "blocks.0.ffn.up.weight";

/// A trainer after three steps, a checkpoint of the third, and a disk.
struct Healthy {
  explicit Healthy(const std::vector<std::string>& changes = {})
      : trainer(tiny_recipe(changes), tiny_data()) {
    io::make_folder(disk, kRun);
    io::make_folder(disk, kCheckpoints);
    for (int i = 0; i < 3; ++i) trainer.step();
    save_checkpoint(disk, kRun, trainer, {.step = 3, .elapsed_ms = 0});
  }
  /// What a run does after the injection: a step and, where that went well, a save.
  void go_on() {
    trainer.step();
    save_checkpoint(disk, kRun, trainer, {.step = 4, .elapsed_ms = 0});
  }
  /// The same without any look at the numbers: the twin.
  void go_on_blindly() {
    trainer.optimizer().step(trainer.params(), {.lr = 1e-3, .grad_scale = 1});
    save_weights(disk, kRun, trainer.recipe(), trainer.model(), 4);
  }
  Tensor weight() { return trainer.params().value(trainer.params().find(kWeight)); }
  Tensor state(const std::string& end) {
    for (const StateTensor& state : trainer.optimizer().state()) {
      if (state.name == kWeight + end) return state.tensor;
    }
    throw Error("no such state");
  }
  Index newest() { return static_cast<Index>(io::newest_whole(disk, kCheckpoints).whole->step); }
  Trainer trainer;
  MemoryDisk disk;
};

int injected = 0;

/// It was told where, and the checkpoint before it is still the newest.
testing::AssertionResult caught(Healthy& run,
                                const std::function<void()>& go_on,
                                std::initializer_list<std::string_view> parts) {
  testing::AssertionResult told = throws<DivergedError>(go_on, parts);
  if (!told) return told;
  if (run.newest() != 3) return testing::AssertionFailure() << "it was saved";
  return testing::AssertionSuccess();
}

void expect_caught(Healthy& run, std::initializer_list<std::string_view> parts) {
  EXPECT_TRUE(caught(
      run, [&] { run.go_on(); }, parts));
  ++injected;
}

TEST(NotFinite, IsCaughtWhereverItIsPut) {
  for (const float value : {NAN, kInf, -kInf}) {
    {
      Healthy run;
      set_value(run.weight(), 1, 2, value);
      expect_caught(run, {"step 4", "mlp", "block 0"});
    }
    {
      Healthy run;
      run.trainer.tape().set_fault({.op = "mlp", .input = 0, .factor = value});
      expect_caught(run, {"gradient", "step 4", "mlp"});
    }
    for (const char* moment : {".m", ".v"}) {
      Healthy run;
      set_value(run.state(moment), 1, 2, value);
      expect_caught(run, {kWeight, "not finite"});
    }
  }
  {
    Healthy run;  // finite weights whose product overflows: an activation
    for (Index i = 0; i < 8; ++i) set_value(run.weight(), 0, i, 3e38);
    expect_caught(run, {"step 4"});
  }
  std::printf("N1: %d injections, all caught in the same step, none saved\n", injected);
}

TEST(NotFinite, NoFalseAlarmInCleanSteps) {
  Trainer trainer(tiny_recipe({"optim.lr=1e-4"}), tiny_data());
  for (int i = 0; i < 2000; ++i) trainer.step();
  std::printf("N1: 2000 clean steps without an alarm\n");
}

/// The twin: a trainer that looks at nothing saves what is not finite.
TEST(NotFiniteTwin, ATrainerThatDoesNotLookIsCaught) {
  for (const float value : {NAN, kInf}) {
    Healthy weights;
    set_value(weights.weight(), 1, 2, value);
    EXPECT_FALSE(caught(weights, [&] { weights.go_on_blindly(); }, {"step 4"}));
    EXPECT_EQ(weights.newest(), 4);
    Healthy moment;
    set_value(moment.state(".m"), 1, 2, value);
    EXPECT_FALSE(caught(moment, [&] { moment.go_on_blindly(); }, {kWeight}));
    EXPECT_FALSE(std::isfinite(value_at(moment.weight(), 1, 2)));
  }
}

}  // namespace
}  // namespace norma::battery
