#include "norma/train/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace norma {
namespace {

using test::throws;

TEST(RunState, KeepsWhatASignalBrokeOff) {
  const RunState state = parse_state(
      "state.json",
      R"({"step":3,"elapsed_ms":5,"open_metrics":"{\"step\":3,\"a\":1}","open_samples":1})");
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.open.metrics, R"({"step":3,"a":1})");
  EXPECT_TRUE(state.open.samples);
  EXPECT_TRUE(parse_state("state.json", R"({"step":3})").open.metrics.empty());
}

TEST(RunState, TakesOnlyALineOfMetrics) {
  for (const char* text : {R"({"step":3,"open_metrics":"x"})",
                           R"({"step":3,"open_metrics":"{\"step\":3"})",
                           R"({"step":3,"open_metrics":"{\"step\":3}\n{}"})"}) {
    EXPECT_TRUE(throws<Error>([&] { parse_state("state.json", text); },
                              {"state.json", "open_metrics is no line of metrics"}))
        << text;
  }
}

}  // namespace
}  // namespace norma
