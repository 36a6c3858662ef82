// R1: the same seed gives the same bits, whatever the number of threads.
#include <gtest/gtest.h>

#include "norma/base/threads.h"
#include "tests/battery/small_run.h"

namespace norma::battery {
namespace {

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

}  // namespace
}  // namespace norma::battery
