// The program from outside: exit codes, output, error sentences.
#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/device/device.h"
#include "tests/cli/program.h"

namespace norma {
namespace {

TEST(Cli, HelpNamesEveryVerbAndAnExample) {
  const Outcome top = run_norma("--help");
  EXPECT_EQ(top.code, 0);
  for (const char* verb : {"train", "eval", "schemes", "check", "bench", "tokenizer", "doctor"}) {
    EXPECT_TRUE(has(top.out, verb));
  }
  for (const char* verb : {"train",
                           "eval",
                           "schemes",
                           "check",
                           "bench kernels",
                           "bench train",
                           "tokenizer train",
                           "tokenizer encode",
                           "tokenizer decode",
                           "doctor"}) {
    const Outcome help = run_norma(say(verb, " --help"));
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(has(help.out, say("Example: norma ", verb))) << verb;
  }
}

TEST(Cli, VersionIsOneLine) {
  const Outcome outcome = run_norma("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out.rfind("norma ", 0), 0U) << outcome.out;
}

struct WrongRequest {
  const char* name;
  const char* arguments;
  const char* sentence;
};
class Wrong : public testing::TestWithParam<WrongRequest> {};

TEST_P(Wrong, IsASentenceAndExitCodeTwo) {
  const Outcome outcome = run_norma(GetParam().arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err.rfind("norma: error: ", 0), 0U) << outcome.err;
  EXPECT_TRUE(has(outcome.err, GetParam().sentence));
  EXPECT_EQ(outcome.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Requests,
    Wrong,
    testing::Values(
        WrongRequest{"NoVerb", "", "subcommand"},
        WrongRequest{"UnknownVerb", "chekc", "chekc"},
        WrongRequest{"UnknownOp", "check rms_nrom", "Did you mean rms_norm?"},
        WrongRequest{"UnknownVariant", "check rms_norm --variant rms2", "Did you mean"},
        WrongRequest{"BadShape", "check rms_norm --shape 3xfour", "like 3x257"},
        WrongRequest{"ZeroShape", "check rms_norm --shape 0x4", "1 or more, got 0"},
        WrongRequest{"WrongRank", "check rms_norm --shape 3", "2 dimensions"},
        WrongRequest{
            "HugeShape", "check rms_norm --shape 999999999x999999999", "too many elements"},
        WrongRequest{"BadCondition", "check rms_norm --condition ofset", "offset"},
        WrongRequest{"BadDevice", "check --device tpu", "tpu"},
        WrongRequest{"BadType", "check --dtype f16", "f16"},
        WrongRequest{"BadTypeOnGpu", "check --device cuda --dtype f64", "f32, bf16 or both"},
        WrongRequest{"BadBenchDevice", "bench kernels --device tpu", "tpu"},
        WrongRequest{"SustainedOnACpu", "bench kernels rms_norm --sustained 1", "--device cuda"},
        WrongRequest{"UnknownCase", "bench train --case gpt-d129", "Did you mean gpt-d12"},
        WrongRequest{"UnknownBenchSetting",
                     "bench train --case gpt-d128 train.recomput=cheap",
                     "Did you mean train.recompute"},
        WrongRequest{"NoCase", "bench train", "--case"},
        WrongRequest{"BadSteps", "bench train --case gpt-d128 --steps -3", "--steps"},
        WrongRequest{"UnknownOption", "doctor --jsn", "--jsn"}),
    [](const auto& param) { return param.param.name; });

TEST(Cli, MoreBytesThanMemoryIsASentence) {
  const Outcome outcome = run_norma("check rms_norm --shape 99999999x9999");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out + outcome.err, "of memory"));
}

TEST(Cli, CheckOfOneOpPasses) {
  const Outcome outcome = run_norma("check rms_norm --shape 3x257");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "0 failed"));
}

TEST(Cli, WithoutAGpuIsASentence) {
  if (device::available()) GTEST_SKIP() << "there is a GPU";
  for (const char* verb : {"check rms_norm", "bench kernels rms_norm"}) {
    const Outcome outcome = run_norma(say(verb, " --device cuda"));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(has(outcome.err, "use device cpu.")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Cli, CheckAsJson) {
  const Outcome outcome = run_norma("check linear --shape 3x17x5 --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind("{\"op\":\"linear\",\"cases\":3,", 0), 0U) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "\"failures\":0}"));
}

TEST(Cli, BenchTrainTakesSettings) {
  const Outcome outcome = run_norma(
      "bench train --case gpt-d128 --steps 1 --json train.recompute=cheap model.layers=1");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "\"recompute\":\"cheap\"")) << outcome.out;
  // 12·128² of the block, (65 + 64)·128 of tokens and positions, three gains of 128.
  EXPECT_TRUE(has(outcome.out, "\"parameters\":213504,")) << outcome.out;
}

TEST(Cli, BenchTrainAsJson) {
  const Outcome outcome = run_norma("bench train --case gpt-d128 --steps 2 --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* key : {"ms_step",
                          "tokens_per_s",
                          "gflops",
                          "gemm_peak_gflops",
                          "efficiency",
                          "peak_memory_bytes",
                          "first_step_seconds",
                          "loss"}) {
    EXPECT_TRUE(has(outcome.out, say("\"", key, "\":")));
  }
}

TEST(Cli, DoctorNamesTheProductLibrary) {
  const Outcome outcome = run_norma("doctor");
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"compiler", "instruction sets", "threads", "products", "cuda", "mpi"}) {
    EXPECT_TRUE(has(outcome.out, word));
  }
}

}  // namespace
}  // namespace norma
