#include "norma/text/bpe_files.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_alphabet.h"
#include "tests/text/reference.h"
#include "tests/text/tiny_merges.h"

namespace norma::text {
namespace {

template <class Read>
std::string complaint(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

testing::AssertionResult says(const std::string& complaint, std::string_view part) {
  if (complaint.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << complaint;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error(say(from, " is not in the text"));
  return text.replace(at, from.size(), to);
}

TEST(MergesFile, GivesIdsInOrder) {
  const BpeModel model = read_merges("x.bpe", "#version: 0.2\na b\nab c\n");
  EXPECT_EQ(model.pieces.size(), 259U);
  EXPECT_EQ(model.pieces[0], "!");
  EXPECT_EQ(model.pieces[257], "abc");
  EXPECT_EQ(model.pieces[258], kEndOfText);
  EXPECT_EQ(model.merges[1], (Merge{256, 66, 257}));
}

TEST(MergesFile, AFirstLineThatIsNoVersionIsAMergeAndLinesMayEndAsOnWindows) {
  EXPECT_EQ(read_merges("x", "# #\r\n## #\r\n").merges.size(), 2U);
  EXPECT_EQ(read_merges("x", "#version: 0.2\na b\n\n").merges.size(), 1U);
  EXPECT_EQ(read_merges("x", "").merges.size(), 0U);
}

struct Damage {
  const char* name;
  const char* text;
  const char* sentence;
};

class DamagedMerges : public testing::TestWithParam<Damage> {};

TEST_P(DamagedMerges, AreRefusedWithASentence) {
  const std::string what = complaint([] { read_merges("x.bpe", GetParam().text); });
  EXPECT_TRUE(says(what, GetParam().sentence));
  EXPECT_EQ(what.rfind("x.bpe: ", 0), 0U) << what;
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    DamagedMerges,
    testing::Values(Damage{"CutOff", "a b\nc d", "is the file whole?"},
                    Damage{"OnePiece", "a b\nab\n", "line 2: a merge must be two pieces"},
                    Damage{"ThreePieces", "a b c\n", "line 1: a merge must be two pieces"},
                    Damage{"NothingOnTheLeft", " b\n", "two pieces"},
                    Damage{"NothingOnTheRight", "a \n", "two pieces"},
                    Damage{"EmptyLine", "a b\n\nc d\n", "line 2"},
                    Damage{"UnknownPiece", "a b\nabc d\n", "merge 2 joins a piece"},
                    Damage{"MadeTooLate", "ab c\na b\n", "merge 1 joins a piece"},
                    Damage{"NoByte", "a 好\n", "merge 1 joins a piece"},
                    Damage{"BrokenUtf8", "a \xFF\n", "merge 1 joins a piece"},
                    Damage{"SameTwice", "a b\na b\n", "comes twice"},
                    Damage{"SamePieceTwice", "a b\nb c\nab c\na bc\n", "\"abc\" comes twice"}),
    [](const auto& param) { return param.param.name; });

struct Change {
  const char* name;
  const char* from;
  const char* to;
  const char* sentence;
};

const std::string& sound_json() {
  static const std::string kText = tokenizer_json(read_merges("x", "a b\nab c\n"));
  return kText;
}

class ChangedTokenizerJson : public testing::TestWithParam<Change> {};

TEST_P(ChangedTokenizerJson, IsRefusedWithASentence) {
  const std::string text = replaced(sound_json(), GetParam().from, GetParam().to);
  const std::string what = complaint([&] { read_tokenizer_json("t.json", text); });
  EXPECT_TRUE(says(what, GetParam().sentence));
  EXPECT_EQ(what.rfind("t.json: ", 0), 0U) << what;
}

INSTANTIATE_TEST_SUITE_P(
    Files,
    ChangedTokenizerJson,
    testing::Values(
        Change{"NotJson", "\"model\"", "model", "not JSON"},
        Change{"NoModel", "\"model\"", "\"modell\"", "no model"},
        Change{"OtherModel", "\"BPE\"", "\"Unigram\"", "other than BPE"},
        Change{"Dropout", "\"dropout\": null", "\"dropout\": 0.1", "dropout must be null"},
        Change{"Unknown", "\"unk_token\": null", "\"unk_token\": \"?\"", "unk_token must be null"},
        Change{
            "ByteFallback", "\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback"},
        Change{"FlagOfAnotherKind",
               "\"byte_fallback\": false",
               "\"byte_fallback\": 0",
               "true or false"},
        Change{"IgnoreMerges", "\"fuse_unk\": false", "\"ignore_merges\": true", "ignore_merges"},
        Change{"Prefix", "subword_prefix\": null", "subword_prefix\": \"##\"", "must be empty"},
        Change{"Normalizer", "\"normalizer\": null", "\"normalizer\": {}", "normalizer"},
        Change{"OtherWords", "\"type\": \"ByteLevel\"", "\"type\": \"Whitespace\"", "ByteLevel"},
        Change{"NoWords", "\"pre_tokenizer\"", "\"pre\"", "pre_tokenizer must be"},
        Change{"NoDecoder", "\"decoder\"", "\"dec\"", "decoder must be"},
        Change{"PostProcessor",
               "\"post_processor\": null",
               "\"post_processor\": {\"type\": \"X\"}",
               "post_processor"},
        Change{"PrefixSpace",
               "\"add_prefix_space\": false",
               "\"add_prefix_space\": true",
               "add_prefix_space"},
        Change{"NoPattern", "\"use_regex\": true", "\"use_regex\": false", "use_regex"},
        Change{"NoVocabulary", "\"vocab\"", "\"vocap\"", "no model.vocab"},
        Change{"NoMerges", "\"merges\"", "\"merge\"", "no model.merges"},
        Change{"IdTwice", "\"ab\": 256", "\"ab\": 255", "id 255 is given twice"},
        Change{"IdBeyond", "\"ab\": 256", "\"ab\": 259", "has the id 259"},
        Change{"IdFarBeyond", "\"ab\": 256", "\"ab\": 9223372036854775807", "9223372036854775807"},
        Change{"IdBelow", "\"ab\": 256", "\"ab\": -1", "has the id -1"},
        Change{"IdBroken", "\"ab\": 256", "\"ab\": 256.5", "whole number"},
        Change{"IdAsText", "\"ab\": 256", "\"ab\": \"256\"", "whole number"},
        Change{"KeyTwice", "\"ab\": 256", "\"abc\": 256", "\"abc\" comes twice"},
        Change{"PieceGone", "\"ab\": 256", "\"xy\": 256", "merge 1 needs \"ab\""},
        Change{"ByteGone", "\"q\": 80", "\"qq\": 80", "the byte \"q\" has no id"},
        Change{"NoByte", "\"ab\": 256", "\"a b\": 256", "stands for no byte"},
        Change{"EmptyPiece", "\"ab\": 256", "\"\": 256", "a piece is empty"},
        Change{"MergeTwice", "\"ab c\"", "\"a b\"", "a second time"},
        Change{"MergeOfOne", "\"ab c\"", "\"abc\"", "merge 2: a merge must be two pieces"},
        Change{"MergeOfThree", "\"ab c\"", "[\"a\", \"b\", \"c\"]", "merge 2 must be two pieces"},
        Change{"MergeOfNumbers", "\"ab c\"", "[1, 2]", "merge 2 must be two pieces"},
        Change{"SpecialOtherId", "{\"id\": 258", "{\"id\": 3", "has the ids 258 and 3"},
        Change{"SpecialEmpty",
               "\"content\": \"<|endoftext|>\"",
               "\"content\": \"\"",
               "special token is empty"},
        Change{"SpecialWithoutId", "{\"id\": 258, ", "{", "a content and an id"},
        Change{"SpecialWithSpace",
               "\"content\": \"<|endoftext|>\"",
               "\"content\": \"<a b>\"",
               "white space behind"},
        Change{"SpecialInPlaceOfAByte",
               "\"added_tokens\": [",
               "\"added_tokens\": [{\"id\": 220, \"content\": \"Ġ\"},",
               "the byte \"Ġ\" has the id of a special token"},
        Change{"MergeWithASpace", "\"ab c\"", "[\"a b\", \"c\"]", "two pieces without spaces"},
        Change{"SpecialStripped", "\"lstrip\": false", "\"lstrip\": true", "lstrip"},
        Change{"SpecialsNoList",
               "\"added_tokens\": [",
               "\"added_tokens\": {}, \"x\": [",
               "must be a list"}),
    [](const auto& param) { return param.param.name; });

TEST(TokenizerJson, ReadsMergesInBothWritings) {
  const std::string pairs =
      replaced(replaced(sound_json(), "\"a b\"", "[\"a\", \"b\"]"), "\"ab c\"", "[\"ab\", \"c\"]");
  EXPECT_EQ(BpeTokenizer(read_tokenizer_json("t", pairs)).fingerprint(),
            BpeTokenizer(read_tokenizer_json("t", sound_json())).fingerprint());
}

TEST(TokenizerJson, ReadsIdsInAnyOrderAndFilesWithoutAType) {
  std::string text = replaced(sound_json(), "\"type\": \"BPE\",", "");
  text = replaced(replaced(text, "\"ab\": 256", "\"ab\": 257"), "\"abc\": 257", "\"abc\": 256");
  const BpeTokenizer bpe(read_tokenizer_json("t", text));
  EXPECT_EQ(bpe.encode("abcab"), (Ids{256, 257}));
}

TEST(TokenizerJson, AMergeMayNotMakeASpecialTokenThatStandsForOtherBytes) {
  std::string text = replaced(sound_json(), "\"ab\": 256", "\"Ġb\": 256");
  text = replaced(replaced(text, "\"a b\"", "\"Ġ b\""), "\"abc\": 257", "\"Ġbc\": 257");
  text = replaced(text, "\"ab c\"", "\"Ġb c\"");
  EXPECT_EQ(BpeTokenizer(read_tokenizer_json("t", text)).encode(" b"), Ids{256});
  text = replaced(
      text, "\"added_tokens\": [", "\"added_tokens\": [{\"id\": 256, \"content\": \"Ġb\"},");
  EXPECT_TRUE(says(complaint([&] { read_tokenizer_json("t", text); }),
                   "merge 1 has to do with a special token"));
}

TEST(TokenizerJson, ASpecialTokenNeedNotBeInTheVocabulary) {
  const std::string text = replaced(sound_json(), ",\n      \"<|endoftext|>\": 258", "");
  const BpeModel model = read_tokenizer_json("t", text);
  EXPECT_EQ(model.specials, (std::vector<SpecialToken>{{std::string(kEndOfText), 258}}));
}

TEST(TokenizerJson, CutOffAnywhereItIsRefused) {
  const std::string& text = sound_json();
  const std::size_t closing = text.find_last_of('}');
  for (std::size_t end = 0; end <= closing; end += 7) {
    EXPECT_TRUE(
        says(complaint([&] { read_tokenizer_json("t", text.substr(0, end)); }), "not JSON"));
  }
}

/// Whatever happens to the bytes: a sound model, or an Error; nothing else.
TEST(TokenizerJson, SurvivesRandomDamage) {
  Dice dice(30);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = sound_json();
    for (std::size_t k = 1 + dice.roll(3); k > 0; --k) {
      const std::size_t at = dice.roll(text.size());
      switch (dice.roll(3)) {
        case 0:
          text[at] = static_cast<char>(dice.roll(256));
          break;
        case 1:
          text.erase(at, 1 + dice.roll(20));
          break;
        default:
          text.insert(at, text.substr(dice.roll(text.size()), dice.roll(30)));
      }
    }
    try {
      const BpeTokenizer bpe(read_tokenizer_json("t", text));
      ASSERT_EQ(bpe.decode(bpe.encode("abc abd <|endoftext|>\xFF")), "abc abd <|endoftext|>\xFF");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1500);
  EXPECT_LT(refused, 3000);
}

TEST(VocabAndMerges, EntriesThatNoMergeMakesAreSpecialTokens) {
  const BpeModel tiny = read_merges("tiny.bpe", kTinyMerges);
  const std::string vocab = vocab_json(tiny);
  const BpeModel model = read_vocab_and_merges({"vocab.json", vocab}, {"merges.txt", kTinyMerges});
  EXPECT_EQ(model.pieces, tiny.pieces);
  EXPECT_EQ(model.merges, tiny.merges);
  EXPECT_EQ(model.specials, tiny.specials);
}

TEST(VocabAndMerges, WhatDoesNotFitTogetherIsRefused) {
  const std::string vocab = vocab_json(read_merges("x", "a b\n"));
  const auto read = [&](const std::string& json, std::string_view merges) {
    return complaint([&] { read_vocab_and_merges({"vocab.json", json}, {"merges.txt", merges}); });
  };
  EXPECT_EQ(read(vocab, "a b\n"), "");
  EXPECT_TRUE(says(read(vocab, "a b\nc d\n"), "vocab.json: merge 2 needs \"cd\""));
  EXPECT_TRUE(says(read("[]", "a b\n"), "an object of pieces and ids"));
  EXPECT_TRUE(says(read("{\"a\": true}", "a b\n"), "whole number"));
  EXPECT_TRUE(says(read(vocab, "a b"), "merges.txt: the last line has no end"));
}

TEST(TokenizerJson, IsWhatOtherReadersExpect) {
  const JsonValue json = parse_json("t", sound_json());
  EXPECT_EQ(json.find("version")->text, "1.0");
  EXPECT_EQ(json.find("model")->find("type")->text, "BPE");
  EXPECT_EQ(json.find("model")->find("vocab")->find("abc")->integer, 257);
  EXPECT_EQ(json.find("model")->find("vocab")->find("Ġ")->integer, 220);
  EXPECT_EQ(json.find("model")->find("merges")->items[1].text, "ab c");
  EXPECT_EQ(json.find("pre_tokenizer")->find("type")->text, "ByteLevel");
  EXPECT_EQ(json.find("decoder")->find("type")->text, "ByteLevel");
  EXPECT_EQ(json.find("added_tokens")->items[0].find("content")->text, kEndOfText);
  EXPECT_TRUE(json.find("added_tokens")->items[0].find("special")->boolean);
}

}  // namespace
}  // namespace norma::text
