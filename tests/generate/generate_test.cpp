// The decoder beyond its context, samples side by side, ends and prompts.
#include "norma/generate/generate.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/nn/catalogue.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_tokenizer.h"
#include "tests/support/expect.h"
#include "tests/support/heap_count.h"
#include "tests/support/values.h"

namespace norma {
namespace {

using test::throws;
using Tokens = std::vector<std::int32_t>;

/// A small model with random weights; its logits are far from even.
class Model {
 public:
  explicit Model(const std::string& scheme = "pre-ln", Index vocab = 256, Index context = 8)
      : gpt_({.layers = 2,
              .width = 32,
              .heads = 4,
              .kv_heads = 2,
              .context = context,
              .vocab = vocab},
             read_scheme(scheme_settings(scheme)),
             params_) {
    params_.allocate(DType::f32);
    gpt_.allocate(DType::f32);
    gpt_.init(3);
    for (const Param& param : params_.params()) {
      if (param.shape.rank() > 1) test::fill_normal(params_.value(param), param.leaf + 1, 0.3);
    }
  }
  Gpt& gpt() { return gpt_; }

  /// The likeliest token after a text, without any cache.
  std::int32_t likeliest_after(const Tokens& tokens) {
    OwnedTensor ids({1, static_cast<Index>(tokens.size())}, DType::i32);
    std::copy(tokens.begin(), tokens.end(), ids.tensor.as<std::int32_t>());
    tape_.reset();
    const Var z =
        tape_.evaluate([&] { return gpt_.next_logits(tape_, ids.tensor, {.training = false}); });
    return Sampler({.temperature = 0}).draw(z.value(), 0, gpt_.spec().vocab, {});
  }

 private:
  ParamStore params_;
  Gpt gpt_;
  Tape tape_;
};

std::vector<Tokens> texts(Gpt& model, const Tokens& prompt, Index samples, GenerateSpec spec) {
  Decoder decoder(model, samples);
  std::vector<Tokens> drawn(static_cast<std::size_t>(samples));
  generate(decoder, prompt, spec, [&](Index sample, std::int32_t id) {
    drawn[static_cast<std::size_t>(sample)].push_back(id);
    return true;
  });
  return drawn;
}

/// What the decoder promises, told with whole passes: read on until the context is full, then start
/// again from its last half.
Tokens plain_greedy(Model& model, Tokens window, Index tokens) {
  const auto context = static_cast<std::size_t>(model.gpt().spec().context);
  window.erase(window.begin(),
               window.end() - static_cast<std::ptrdiff_t>(std::min(context, window.size())));
  Tokens drawn;
  while (static_cast<Index>(drawn.size()) < tokens) {
    drawn.push_back(model.likeliest_after(window));
    if (window.size() == context) {
      window.erase(
          window.begin(),
          window.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(context / 2, 1) - 1));
    }
    window.push_back(drawn.back());
  }
  return drawn;
}

TEST(Generate, GoesOnBeyondTheContext) {
  for (const char* scheme : {"pre-ln", "dnt"}) {
    for (const Index context : {Index{1}, Index{3}, Index{8}}) {
      Model model(scheme, 256, context);
      for (const Tokens& prompt :
           {Tokens{65}, Tokens{1, 2, 3}, Tokens{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11}}) {
        const GenerateSpec greedy{.sampling = {.temperature = 0}, .tokens = 20};
        EXPECT_EQ(texts(model.gpt(), prompt, 1, greedy)[0], plain_greedy(model, prompt, 20))
            << scheme << ", context " << context << ", prompt of " << prompt.size();
      }
    }
  }
}

TEST(Generate, ASampleDoesNotDependOnThoseBesideIt) {
  Model model;
  const GenerateSpec spec{.sampling = {.seed = 5}, .tokens = 25};
  const auto three = texts(model.gpt(), {1, 2}, 3, spec);
  EXPECT_EQ(texts(model.gpt(), {1, 2}, 1, spec)[0], three[0]);
  EXPECT_EQ(texts(model.gpt(), {1, 2}, 7, spec)[2], three[2]);
  GenerateSpec second = spec;
  second.first_sample = 1;
  EXPECT_EQ(texts(model.gpt(), {1, 2}, 1, second)[0], three[1]);
  EXPECT_NE(three[0], three[1]);
  GenerateSpec other = spec;
  other.sampling.seed = 6;
  EXPECT_NE(texts(model.gpt(), {1, 2}, 1, other)[0], three[0]);
}

TEST(Generate, ADrawnEndFinishesOneSampleAndNotTheOthers) {
  Model model("pre-ln", 12);
  GenerateSpec spec{.sampling = {.temperature = 3, .seed = 2}, .tokens = 40};
  const auto without = texts(model.gpt(), {1}, 3, spec);
  spec.end = without[0][6];
  const auto with = texts(model.gpt(), {1}, 3, spec);
  for (std::size_t s = 0; s < 3; ++s) {
    const auto end = std::find(without[s].begin(), without[s].end(), spec.end);
    EXPECT_EQ(with[s], Tokens(without[s].begin(), end)) << "sample " << s;
  }
}

TEST(Generate, TheTakerStopsEverything) {
  Model model;
  Decoder decoder(model.gpt(), 2);
  int taken = 0;
  generate(decoder, Tokens{1}, {.tokens = 100}, [&](Index, std::int32_t) { return ++taken < 5; });
  EXPECT_EQ(taken, 5);
}

TEST(Generate, DrawsOnlyWhatTheTokenizerKnows) {
  Model model("pre-ln", 256);
  for (const Tokens& drawn : texts(model.gpt(), {1}, 2, {.tokens = 60, .choices = 5})) {
    for (const std::int32_t id : drawn) EXPECT_LT(id, 5);
  }
}

TEST(Generate, NothingIsAllocatedFromTokenToToken) {
  Model model("ngpt", 256, 64);
  Decoder decoder(model.gpt(), 2);
  decoder.start(Tokens{1, 2, 3});
  const Tokens next = {4, 5};
  for (int i = 0; i < 3; ++i) decoder.append(next);
  const test::HeapCount count;
  for (int i = 0; i < 20; ++i) decoder.append(next);
  EXPECT_EQ(count.calls(), 0);
}

TEST(Generate, AnEmptyPromptIsRefusedByTheDecoder) {
  Model model;
  Decoder decoder(model.gpt(), 1);
  EXPECT_TRUE(throws<RequestError>([&] { decoder.start({}); }, {"at least one token"}));
}

TEST(Prompt, BytesStartFromANewLine) {
  const text::ByteTokenizer bytes;
  EXPECT_EQ(prompt_ids(bytes, "", 256), Tokens{'\n'});
  EXPECT_EQ(prompt_ids(bytes, "ab", 256), (Tokens{'a', 'b'}));
  EXPECT_EQ(spec_for(bytes, 300).choices, 256);
  EXPECT_EQ(spec_for(bytes, 300).end, -1);
  EXPECT_TRUE(
      throws<RequestError>([&] { prompt_ids(bytes, "z", 100); }, {"token 122", "only 100"}));
}

TEST(Prompt, EndOfTextIsTheStartWhereItExists) {
  text::BpeModel model;
  model.name = "tiny";
  for (int byte = 0; byte < 256; ++byte) model.pieces.emplace_back(1, static_cast<char>(byte));
  model.pieces.emplace_back(text::kEndOfText);
  model.specials = {{std::string(text::kEndOfText), 256}};
  const text::BpeTokenizer tokenizer(model);
  EXPECT_EQ(prompt_ids(tokenizer, "", 300), Tokens{256});
  EXPECT_EQ(prompt_ids(tokenizer, "a<|endoftext|>", 300), (Tokens{'a', 256}));
  EXPECT_EQ(spec_for(tokenizer, 300).choices, 257);
  EXPECT_EQ(spec_for(tokenizer, 300).end, 256);
  EXPECT_TRUE(throws<RequestError>([&] { prompt_ids(tokenizer, "", 256); }, {"token 256"}));
}

}  // namespace
}  // namespace norma
