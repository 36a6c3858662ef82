// Export and back: the same weights, bit for bit, and the same logits.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/text/bpe_files.h"
#include "tests/exchange/models.h"
#include "tests/support/expect.h"

namespace norma::exchange {
namespace {

using test::MemoryDisk;
using test::same_weights;
using test::SmallModel;
using test::throws;

Exported to_disk(MemoryDisk& disk, const SmallModel& model, ExportRequest request) {
  if (request.folder.empty()) request.folder = "out";
  return export_model(disk, model.model(), model.facts(), request);
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

struct HfCase {
  const char* name;
  std::vector<std::string> settings;
  std::vector<std::string> back;  // what an import has to be told to get the same layout
};

class HfRoundTrip : public testing::TestWithParam<HfCase> {};

TEST_P(HfRoundTrip, SameWeightsAndLogits) {
  const SmallModel before(GetParam().settings);
  MemoryDisk disk;
  to_disk(disk, before, {});
  const SmallModel after(disk, "out", "auto", GetParam().back);
  EXPECT_TRUE(same_weights(after.model(), before.model()));
  EXPECT_EQ(after.logits(), before.logits());
}

TEST_P(HfRoundTrip, TheirLayoutComputesTheSame) {
  const SmallModel before(GetParam().settings);
  MemoryDisk disk;
  to_disk(disk, before, {});
  const SmallModel after(disk, "out", "hf");
  const std::vector<double> want = before.logits();
  const std::vector<double> got = after.logits();
  ASSERT_EQ(got.size(), want.size());
  const double limit = 1e-5 * largest(want);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], limit) << i;
}

const std::vector<HfCase> kHfCases = {
    {"gpt2", {"scheme.base=pre-ln", "model.bias=true", "model.ffn=gelu_tanh"}, {}},
    {"gpt2_erf", {"scheme.base=pre-ln", "model.bias=true"}, {}},
    {"gpt2_relu_untied",
     {"scheme.base=pre-ln", "model.bias=true", "model.ffn=relu", "model.tied=false"},
     {}},
    {"gpt2_eps",
     {"scheme.base=pre-ln",
      "model.bias=true",
      "scheme.attn_pre.eps=3e-4",
      "scheme.ffn_pre.eps=3e-4",
      "scheme.final.eps=3e-4"},
     {}},
    {"llama_half_split", {"scheme.base=pre-rms", "model.rope=half_split"}, {}},
    {"llama_interleaved", {"scheme.base=pre-rms"}, {"model.rope=interleaved"}},
    {"llama_grouped_tied",
     {"scheme.base=pre-rms", "model.kv_heads=2", "model.tied=true"},
     {"model.rope=interleaved"}},
    {"llama_wide_heads",
     {"scheme.base=pre-rms", "model.head_width=8", "model.rope_base=500000"},
     {"model.rope=interleaved"}},
    {"llama_biases",
     {"scheme.base=pre-rms", "model.bias=true", "model.ffn=geglu"},
     {"model.rope=interleaved"}},
};
INSTANTIATE_TEST_SUITE_P(Forms,
                         HfRoundTrip,
                         testing::ValuesIn(kHfCases),
                         [](const testing::TestParamInfo<HfCase>& at) { return at.param.name; });

TEST(RoundTrip, AGptWithoutBiasesComesBackWithZeros) {
  const SmallModel before({"scheme.base=pre-ln"});
  MemoryDisk disk;
  const Exported done = to_disk(disk, before, {});
  ASSERT_EQ(done.notes.size(), 2U);
  EXPECT_NE(done.notes[0].find("zeros"), std::string::npos);
  const SmallModel after(disk, "out", "auto");
  EXPECT_TRUE(after.recipe.model.bias);
  EXPECT_EQ(after.logits(), before.logits());
}

class PlainRoundTrip : public testing::TestWithParam<std::string> {};

TEST_P(PlainRoundTrip, EverySchemeComesBack) {
  const SmallModel before({"scheme.base=" + GetParam(), "optim.lr=0.25"});
  MemoryDisk disk;
  to_disk(disk, before, {.form = ExportForm::safetensors});
  const SmallModel after(disk, "out", "auto");
  EXPECT_TRUE(same_weights(after.model(), before.model()));
  EXPECT_EQ(after.logits(), before.logits());
  EXPECT_EQ(after.step, 7);
  EXPECT_EQ(after.recipe.scheme.name, before.recipe.scheme.name);
  EXPECT_EQ(after.recipe.optim.lr, 0.25);
}
INSTANTIATE_TEST_SUITE_P(Schemes,
                         PlainRoundTrip,
                         testing::ValuesIn(scheme_names()),
                         [](const testing::TestParamInfo<std::string>& at) {
                           std::string name = at.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(RoundTrip, StatisticsOfBatchNormGoAlong) {
  const SmallModel before({"scheme.base=pre-ln", "scheme.attn_pre=bn"});
  MemoryDisk disk;
  to_disk(disk, before, {.form = ExportForm::safetensors});
  const SmallModel after(disk, "out", "auto");
  EXPECT_TRUE(same_weights(after.model(), before.model()));
  EXPECT_EQ(after.logits(), before.logits());
}

TEST(RoundTrip, DoublesAreWrittenAsFloats) {
  const SmallModel before({"scheme.base=ngpt", "train.precision=\"f64\""});
  MemoryDisk disk;
  to_disk(disk, before, {.form = ExportForm::safetensors});
  const SmallModel after(disk, "out", "auto");  // the weights of these tests are floats
  EXPECT_TRUE(same_weights(after.model(), before.model()));
}

TEST(RoundTrip, ShortFloatsAreRoundedOnce) {
  const SmallModel before({"scheme.base=pre-rms"});
  for (const auto& [dtype, digits] : {std::pair{"bf16", 8}, std::pair{"f16", 11}}) {
    MemoryDisk disk;
    const Exported done = to_disk(disk, before, {.dtype = dtype});
    EXPECT_EQ(done.weight_bytes, 2U * static_cast<std::uint64_t>(before.built->params.count()));
    const SmallModel after(disk, "out", "auto", {"model.rope=interleaved"});
    double worst = 0;
    for (std::size_t i = 0; i < before.model().tensors().size(); ++i) {
      const Tensor was = before.model().tensors()[i].tensor;
      const Tensor is = after.model().tensors()[i].tensor;
      for (Index k = 0; k < was.count(); ++k) {
        const double value = was.as<float>()[k];
        worst = std::max(worst, std::abs(is.as<float>()[k] - value) / std::abs(value));
      }
    }
    EXPECT_LE(worst, std::ldexp(1.001, -digits)) << dtype;
    EXPECT_GE(worst, std::ldexp(0.9, -digits)) << dtype;
    const std::string first = disk.bytes_of("out/model.safetensors");
    to_disk(disk, after, {.folder = "again", .dtype = dtype});
    EXPECT_EQ(disk.bytes_of("again/model.safetensors"), first);
  }
}

TEST(RoundTrip, LargeModelsAreCutIntoShards) {
  const SmallModel before({"scheme.base=pre-rms"});
  MemoryDisk disk;
  const Exported done = to_disk(disk, before, {.shard_bytes = 4000});
  std::set<std::string> shards;
  for (const std::string& file : done.files) {
    if (file.ends_with(".safetensors")) shards.insert(file);
  }
  ASSERT_GT(shards.size(), 3U);
  EXPECT_EQ(*shards.begin(), say("model-00001-of-0000", shards.size(), ".safetensors"));
  const SmallModel after(disk, "out", "auto", {"model.rope=interleaved"});
  EXPECT_TRUE(same_weights(after.model(), before.model()));
}

text::BpeModel tokenizer_of(Index ids) {
  text::BpeModel model;
  model.name = "test";
  for (Index i = 0; i + 1 < ids; ++i) model.pieces.emplace_back(1, static_cast<char>(i));
  model.pieces.emplace_back(text::kEndOfText);
  model.specials = {{std::string(text::kEndOfText), static_cast<text::Id>(ids - 1)}};
  return model;
}

TEST(RoundTrip, PaddingOfTheVocabularyIsLeftOut) {
  const SmallModel model({"scheme.base=pre-ln", "model.bias=true", "model.vocab=320"});
  ExportFacts facts = model.facts();
  facts.tokenizer = tokenizer_of(257);
  MemoryDisk disk;
  const Exported done = export_model(disk, model.model(), facts, {.folder = "cut"});
  ASSERT_EQ(done.notes.size(), 1U);
  EXPECT_NE(done.notes[0].find("left out 63 rows"), std::string::npos);
  const SmallModel cut(disk, "cut", "auto");
  EXPECT_EQ(cut.recipe.model.vocab, 257);
  const std::vector<double> want = model.logits();
  const std::vector<double> got = cut.logits();
  const double limit = 1e-5 * largest(want);
  for (std::size_t row = 0; row < 18; ++row) {
    for (std::size_t id = 0; id < 257; ++id) {
      ASSERT_NEAR(got[row * 257 + id], want[row * 320 + id], limit);
    }
  }
  const std::string config = disk.bytes_of("cut/config.json");
  EXPECT_NE(config.find("\"eos_token_id\": 256"), std::string::npos) << config;
  EXPECT_NE(disk.bytes_of("cut/tokenizer_config.json").find("<|endoftext|>"), std::string::npos);

  export_model(disk, model.model(), facts, {.folder = "kept", .keep_padding = true});
  EXPECT_TRUE(same_weights(SmallModel(disk, "kept", "auto").model(), model.model()));
  export_model(disk, model.model(), facts, {.form = ExportForm::safetensors, .folder = "own"});
  EXPECT_TRUE(same_weights(SmallModel(disk, "own", "auto").model(), model.model()));

  facts.tokenizer = tokenizer_of(321);
  EXPECT_TRUE(throws<Error>([&] { export_model(disk, model.model(), facts, {.folder = "no"}); },
                            {"321 ids", "ends at 320"}));
}

TEST(RoundTrip, AFolderThatIsThereStays) {
  const SmallModel model({"scheme.base=pre-rms"});
  const SmallModel other({"scheme.base=ngpt"});
  MemoryDisk disk;
  to_disk(disk, model, {});
  const std::string first = disk.bytes_of("out/model.safetensors");
  EXPECT_TRUE(
      throws<RequestError>([&] { to_disk(disk, model, {}); }, {"out is there already", "--force"}));
  to_disk(disk, other, {.form = ExportForm::safetensors, .replace = true});
  EXPECT_NE(disk.bytes_of("out/model.safetensors"), first);
  std::vector<std::string> names;
  disk.list("out", names);
  EXPECT_EQ(names, std::vector<std::string>{"model.safetensors"});
  names.clear();
  disk.list(".", names);
  EXPECT_EQ(names, std::vector<std::string>{"out"});  // nothing temporary, nothing old
  disk.put("out/thesis.tex", "years of work");
  EXPECT_TRUE(throws<RequestError>([&] { to_disk(disk, model, {.replace = true}); },
                                   {"out holds thesis.tex"}));
  EXPECT_EQ(disk.bytes_of("out/thesis.tex"), "years of work");
}

TEST(RoundTrip, AnExportThatFailsLeavesNothing) {
  const SmallModel model({"scheme.base=pre-rms"});
  MemoryDisk probe;
  to_disk(probe, model, {});
  const long calls = probe.calls();
  for (long at = 0; at < calls; ++at) {
    MemoryDisk disk;
    disk.cut_power_after(at);
    EXPECT_THROW(to_disk(disk, model, {}), Error) << at;
    disk.cut_power_after(-1);
    std::vector<std::string> names;
    if (disk.list("out", names).error == 0) {
      EXPECT_EQ(names.size(), 3U) << at;  // the name came last, so it is whole
    }
  }
}

}  // namespace
}  // namespace norma::exchange
