#include "norma/exchange/hf_form.h"

#include <map>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "tests/exchange/models.h"
#include "tests/support/expect.h"

namespace norma::exchange {
namespace {

Recipe recipe_with(const std::vector<std::string>& settings) {
  Settings given =
      Settings::from_toml("model = { layers = 8, width = 16, heads = 4, vocab = 20 }", "test");
  for (const std::string& setting : settings) given.set_assignment(setting);
  return read_recipe(given);
}

NameMap form_of(const std::vector<std::string>& settings) {
  const Recipe recipe = recipe_with(settings);
  return hf_form_of(recipe.model, recipe.scheme);
}

testing::AssertionResult refused(const std::vector<std::string>& settings, std::string_view why) {
  return test::throws<RequestError>([&] { form_of(settings); }, {why, "--to safetensors"});
}

TEST(HfForm, TheTwoThatFit) {
  EXPECT_EQ(form_of({"scheme.base=pre-ln", "model.bias=true", "model.ffn=gelu_tanh"}),
            NameMap::gpt2);
  EXPECT_EQ(form_of({"scheme.base=pre-ln"}), NameMap::gpt2);  // biases of zero
  EXPECT_EQ(form_of({"scheme.base=pre-ln", "model.tied=false"}), NameMap::gpt2);
  EXPECT_EQ(form_of({"scheme.base=pre-rms"}), NameMap::llama);
  EXPECT_EQ(form_of({"scheme.base=pre-rms", "model.kv_heads=2", "model.tied=true"}),
            NameMap::llama);
  EXPECT_EQ(form_of({"scheme.base=pre-rms", "model.rope=half_split"}), NameMap::llama);
  EXPECT_EQ(form_of({"scheme.base=pre-rms", "model.ffn=geglu"}), NameMap::llama);
}

TEST(HfForm, AnyNameWillDo) {
  // DNT with its norms taken away is a Llama, whatever it is called.
  std::vector<std::string> settings = {"scheme.base=dnt", "scheme.name=mine", "model.ffn=swiglu"};
  const Scheme dnt = recipe_with({"scheme.base=dnt"}).scheme;
  for (const auto& [word, site] : Words<Site>::kAll) {
    const bool normed = site == Site::attn_pre || site == Site::ffn_pre || site == Site::final;
    settings.push_back(say("scheme.", word, normed ? "=rms" : "=none"));
  }
  settings.emplace_back("model.positions=rope");
  EXPECT_EQ(form_of(settings), NameMap::llama);
}

TEST(HfForm, ConstraintsOfTrainingDoNotMatter) {
  EXPECT_EQ(form_of({"scheme.base=pre-rms", "scheme.weights.hidden=frobenius"}), NameMap::llama);
}

TEST(HfForm, EachDifferenceIsNamed) {
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "model.ffn=relu2"}, "model.ffn is relu2"));
  EXPECT_TRUE(
      refused({"scheme.base=pre-ln", "model.positions=none"}, "model.positions is not learned"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "model.kv_heads=2"}, "model.kv_heads"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "model.head_width=8"}, "model.head_width"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "model.layer_scale=0.1"}, "model.layer_scale"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.q=rms"}, "q has rms"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.ffn_pre=rms"}, "ffn_pre has rms and not ln"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.final=none"}, "final has none and not ln"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.final.eps=1e-4"}, "different eps"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.attn_pre.gain=none"}, "attn_pre has no gain"));
  EXPECT_TRUE(refused({"scheme.base=pre-ln", "scheme.attn_pre.gain_scale=0.5"}, "another scale"));
  EXPECT_TRUE(
      refused({"scheme.base=pre-ln", "scheme.residual.attn=scaled"}, "residual rule is scaled"));
  EXPECT_TRUE(refused({"scheme.base=pre-rms", "model.rope=nvidia_defect"}, "nvidia_defect"));
  EXPECT_TRUE(refused({"scheme.base=pre-rms", "scheme.attention.softcap=30"}, "softcap"));
  EXPECT_TRUE(refused({"scheme.base=pre-rms", "scheme.attention.scale=1"}, "attention.scale is 1"));
  EXPECT_TRUE(refused({"scheme.base=pre-rms", "scheme.attention.head_gain=true"}, "head_gain"));
  EXPECT_TRUE(
      refused({"scheme.base=pre-rms", "scheme.scales.embedding=2"}, "scales.embedding is 2"));
  EXPECT_TRUE(refused({"scheme.base=pre-rms", "scheme.scales.s_u=vector"}, "learned scales"));
  EXPECT_TRUE(
      refused({"scheme.base=pre-rms", "scheme.weights.query=weight_norm"}, "weights.query"));
}

/// Which of the built-in schemes have a form, in their own shape: a new one has to be decided here.
TEST(HfForm, TheCatalogue) {
  const std::map<std::string, NameMap> fitting = {
      {"pre-ln", NameMap::gpt2}, {"pre-rms", NameMap::llama}, {"dual-patchnorm", NameMap::gpt2}};
  for (const std::string& name : scheme_names()) {
    const Recipe recipe = recipe_with({"scheme.base=" + name});
    const auto wanted = fitting.find(name);
    if (wanted == fitting.end()) {
      EXPECT_THROW(hf_form_of(recipe.model, recipe.scheme), RequestError) << name;
    } else {
      EXPECT_EQ(hf_form_of(recipe.model, recipe.scheme), wanted->second) << name;
    }
  }
}

}  // namespace
}  // namespace norma::exchange
