// norma export and norma import from outside: folders that come and go between programs, refusals,
// fine-tuning from imported weights.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/cli/program.h"
#include "tests/support/contents.h"
#include "tests/support/temp_folder.h"

namespace norma {
namespace {

namespace fs = std::filesystem;

using test::contents;

class CliExchange : public testing::Test {
 protected:
  CliExchange() {
    std::ofstream text(at("book.txt"));
    for (int i = 0; i < 600; ++i) text << (i % 3 == 0 ? "sun " : "moon ");
    std::ofstream(at("r.toml")) << R"(
model = { layers = 1, width = 16, heads = 2, context = 16 }
optim = { lr = 1e-2 }
train = { steps = 2, batch = 2, checkpoint_every = 1 }
)";
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  Outcome train(const std::string& run, const std::string& more) const {
    return run_norma(
        say("train ", at("r.toml"), " data.path=", at("book.txt"), " --out ", at(run), " ", more));
  }
  std::string weights(const std::string& run, const char* step) const {
    return contents(at(say(run, "/checkpoints/", step, "/model.safetensors")));
  }
  test::TempFolder folder_;
};

TEST_F(CliExchange, ToHuggingFaceAndBack) {
  ASSERT_EQ(train("a", "scheme.base=pre-ln model.bias=true").code, 0);
  const Outcome out =
      run_norma(say("export ", at("a"), " --to hf ", at("x/y/hf"), " --with-logits"));
  ASSERT_EQ(out.code, 0) << out.err;
  EXPECT_TRUE(has(out.out, "step 2 of"));
  EXPECT_TRUE(has(out.out, "GPT2LMHeadModel"));
  for (const char* file : {"config.json",
                           "generation_config.json",
                           "model.safetensors",
                           "tokenizer.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "vocab.json",
                           "merges.txt",
                           "norma-logits.safetensors"}) {
    EXPECT_TRUE(fs::exists(at(say("x/y/hf/", file)))) << file;
  }
  const Outcome in = run_norma(say("import ", at("x/y/hf"), " --out ", at("b"), " --json"));
  ASSERT_EQ(in.code, 0) << in.err;
  EXPECT_TRUE(has(in.out, "\"scheme\":\"pre-ln\""));
  EXPECT_EQ(weights("b", "step-00000000"), weights("a", "step-00000002"));
  EXPECT_FALSE(weights("b", "step-00000000").empty());
  EXPECT_TRUE(fs::exists(at("b/tokenizer.json")));
  const Outcome encoded = run_in_shell(
      say("printf 'A\\377' | $NORMA tokenizer encode --tokenizer ", at("b/tokenizer.json"), " -"));
  EXPECT_EQ(encoded.out, "65 255\n") << encoded.err;
}

TEST_F(CliExchange, AnOlderCheckpointAndAnotherType) {
  ASSERT_EQ(train("a", "scheme.base=pre-rms").code, 0);
  ASSERT_EQ(
      run_norma(say("export ", at("a"), " ", at("one"), " --checkpoint 1 --to safetensors")).code,
      0);
  ASSERT_EQ(run_norma(say("import ", at("one"), " --out ", at("b"))).code, 0);
  EXPECT_EQ(weights("b", "step-00000001"), weights("a", "step-00000001"));
  const Outcome half = run_norma(say("export ", at("a"), " ", at("half"), " --dtype bf16 --json"));
  ASSERT_EQ(half.code, 0) << half.err;
  EXPECT_TRUE(has(contents(at("half/config.json")), "\"torch_dtype\": \"bfloat16\""));
  EXPECT_EQ(run_norma(say("export ", at("a"), " ", at("no"), " --checkpoint 9")).code, 2);
  EXPECT_FALSE(fs::exists(at("no")));
}

TEST_F(CliExchange, ARunForAGpuCanBeImportedWithoutOne) {
  ASSERT_EQ(train("a", "scheme.base=pre-rms").code, 0);
  ASSERT_EQ(run_norma(say("export ", at("a"), " ", at("own"), " --to safetensors")).code, 0);
  const Outcome in = run_norma(
      say("import ", at("own"), " train.device=cuda train.precision=bf16_storage --out ", at("b")));
  ASSERT_EQ(in.code, 0) << in.err;
  const Outcome eval = run_norma(say("eval ", at("b"), " --device cpu --data ", at("book.txt")));
  EXPECT_EQ(eval.code, 0) << eval.err;
}

TEST_F(CliExchange, WhatDoesNotFitIsRefused) {
  ASSERT_EQ(train("a", "scheme.base=ngpt").code, 0);
  const Outcome out = run_norma(say("export ", at("a"), " --to hf ", at("hf")));
  EXPECT_EQ(out.code, 2);
  EXPECT_TRUE(has(out.err, "neither a GPT-2 nor a Llama"));
  EXPECT_TRUE(has(out.err, "attn_pre has none and not rms; q has l2"));
  EXPECT_FALSE(fs::exists(at("hf")));
  ASSERT_EQ(run_norma(say("export ", at("a"), " --to safetensors ", at("own"))).code, 0);
  EXPECT_TRUE(has(contents(at("own/model.safetensors")), "norma.scheme_toml"));
  EXPECT_FALSE(has(contents(at("own/model.safetensors")), "book.txt"));
  const Outcome again = run_norma(say("export ", at("a"), " --to safetensors ", at("own")));
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(has(again.err, "--force"));
  EXPECT_EQ(run_norma(say("export ", at("a"), " --to safetensors --force ", at("own"))).code, 0);
}

TEST_F(CliExchange, ABadImportLeavesNoRun) {
  const Outcome nothing = run_norma(say("import ", at("absent"), " --out ", at("b")));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_TRUE(has(nothing.err, "there is no"));
  ASSERT_EQ(train("a", "scheme.base=pre-rms").code, 0);
  ASSERT_EQ(run_norma(say("export ", at("a"), " ", at("hf"))).code, 0);
  fs::resize_file(at("hf/model.safetensors"), fs::file_size(at("hf/model.safetensors")) - 1);
  const Outcome cut = run_norma(say("import ", at("hf"), " --out ", at("b")));
  EXPECT_EQ(cut.code, 1);
  EXPECT_TRUE(has(cut.err, "model.safetensors"));
  EXPECT_FALSE(fs::exists(at("b")));
}

TEST_F(CliExchange, ATrainingStartsFromImportedWeights) {
  ASSERT_EQ(train("a", "scheme.base=pre-rms").code, 0);
  ASSERT_EQ(run_norma(say("export ", at("a"), " ", at("own"), " --to safetensors")).code, 0);
  ASSERT_EQ(run_norma(say("import ", at("own"), " --out ", at("b"))).code, 0);
  // A learning rate of nearly nothing: what is there after two steps is what it started from.
  const Outcome tuned =
      train("c", say("scheme.base=pre-rms optim.lr=1e-30 train.init_from=", at("b")));
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(weights("c", "step-00000002"), weights("a", "step-00000002"));

  const Outcome resumed = run_norma(say(
      "train ", at("b/recipe.toml"), " data.path=", at("book.txt"), " --resume --out ", at("b")));
  EXPECT_EQ(resumed.code, 2);
  EXPECT_TRUE(has(resumed.err, "holds weights alone"));
  EXPECT_TRUE(has(resumed.err, "train.init_from"));
  const Outcome other = train("d", say("scheme.base=ngpt train.init_from=", at("b")));
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err, "does not fit the model, and nothing was loaded"));
  EXPECT_FALSE(fs::exists(at("d")));
  const Outcome absent = train("e", say("train.init_from=", at("nowhere")));
  EXPECT_EQ(absent.code, 2);
  EXPECT_TRUE(has(absent.err, "train.init_from"));
  EXPECT_FALSE(fs::exists(at("e")));
}

TEST_F(CliExchange, ATokenizerThatNormaCannotDoIsLeftOutWithANote) {
  ASSERT_EQ(train("a", "scheme.base=pre-rms").code, 0);
  ASSERT_EQ(run_norma(say("export ", at("a"), " ", at("hf"))).code, 0);
  std::ofstream(at("hf/tokenizer.json")) << R"({"model": {"type": "Unigram"}})";
  const Outcome in = run_norma(say("import ", at("hf"), " --out ", at("b")));
  ASSERT_EQ(in.code, 0) << in.err;
  EXPECT_TRUE(has(in.err, "there is no tokenizer in the run"));
  EXPECT_FALSE(fs::exists(at("b/tokenizer.json")));
  const Outcome named = run_norma(say("import ", at("hf"), " --tokenizer byte --out ", at("c")));
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_TRUE(fs::exists(at("c/tokenizer.json")));
}

}  // namespace
}  // namespace norma
