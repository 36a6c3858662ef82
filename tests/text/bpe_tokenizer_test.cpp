#include "norma/text/bpe_tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/threads.h"
#include "norma/text/bpe_files.h"
#include "norma/text/byte_tokenizer.h"
#include "norma/text/load.h"
#include "tests/text/reference.h"
#include "tests/text/tiny_merges.h"

namespace norma::text {
namespace {

const BpeTokenizer& tiny() {
  static const BpeTokenizer kTiny(read_merges("tiny.bpe", kTinyMerges));
  return kTiny;
}

/// A word that a test likes to see long: no space in it, and many pieces.
std::string long_word(Dice& dice, std::size_t bytes) {
  static const std::vector<std::string> kSyllables = {
      "the", "in", "er", "a", "on", "st", "re", "n"};
  std::string word;
  while (word.size() < bytes) word += dice.pick(kSyllables);
  return word;
}

TEST(ByteTokenizer, IsTheIdentity) {
  const ByteTokenizer bytes;
  EXPECT_EQ(bytes.encode("a\xFF"), (Ids{97, 255}));
  EXPECT_EQ(bytes.decode(Ids{104, 105, 0, 255}), std::string("hi\0\xFF", 4));
  EXPECT_THROW(bytes.decode(Ids{256}), RequestError);
  EXPECT_THROW(bytes.decode(Ids{-1}), RequestError);
  EXPECT_EQ(bytes.special_id(kEndOfText), -1);
}

TEST(Bpe, MergesTheEarliestFirstAndTheLeftmostOfEqualOnes) {
  const BpeTokenizer bpe(read_merges("x", "b c\na b\na a\naa a\n"));
  EXPECT_EQ(bpe.vocab_size(), 261);
  EXPECT_EQ(bpe.encode("abc"), (Ids{64, 256}));  // a|bc: the merge of b and c comes first
  EXPECT_EQ(bpe.encode("ab"), (Ids{257}));
  EXPECT_EQ(bpe.encode("aaa"), (Ids{259}));
  EXPECT_EQ(bpe.encode("aaaa"), (Ids{258, 258}));
  EXPECT_EQ(bpe.encode("a b"), (Ids{64, 220, 65}));
}

TEST(Bpe, AgreesWithTheReference) {
  const ReferenceBpe reference(tiny().model());
  Dice dice(4);
  for (int i = 0; i < 6000; ++i) {
    const std::string text = i % 3 == 0 ? random_bytes(dice, dice.roll(60)) : nasty_text(dice, 15);
    ASSERT_EQ(tiny().encode(text), reference.encode(text)) << testing::PrintToString(text);
  }
}

TEST(Bpe, AgreesWithTheReferenceOnLongWords) {
  const ReferenceBpe reference(tiny().model());
  Dice dice(5);
  for (const std::size_t bytes : {14, 15, 16, 17, 90, 95, 96, 97, 98, 99, 150, 400}) {
    for (int i = 0; i < 20; ++i) {
      const std::string word = long_word(dice, bytes);
      ASSERT_EQ(tiny().encode(word), reference.encode(word)) << word;
    }
  }
  const std::string same(301, 's');
  EXPECT_EQ(tiny().encode(same), reference.encode(same));
}

/// Where a run of one piece can be paired in two ways, it is paired from the left.
TEST(Bpe, PairsRunsFromTheLeft) {
  const BpeTokenizer bpe(read_merges("x", "a a\naa aa\naaaa b\n"));
  const ReferenceBpe reference(bpe.model());
  for (const std::size_t count : {3, 7, 95, 96, 97, 98, 99, 301}) {
    for (const char* tail : {"", "b"}) {
      const std::string run = std::string(count, 'a') + tail;
      EXPECT_EQ(bpe.encode(run), reference.encode(run)) << run;
    }
  }
}

/// Words that differ in one byte only, in every place, behind each other and at the end of a text.
TEST(Bpe, KnownWordsAreNotTakenForEachOther) {
  // Only words of few pieces are remembered.
  const BpeTokenizer bpe(read_merges("x", "x x\nxx xx\nxxxx xxxx\ny x\nyx xx\nyxxx xxxx\n"));
  for (std::size_t length = 1; length <= 17; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string one(length, 'x');
      std::string other = one;
      other[at] = 'y';
      const std::string text = one + "\n" + other + "\n" + one + "1" + other + "\n" + other;
      ASSERT_EQ(bpe.decode(bpe.encode(text)), text);
      ASSERT_EQ(bpe.decode(bpe.encode(other)), other);
    }
  }
}

TEST(Bpe, ASecondTimeGivesTheSameIds) {
  const BpeTokenizer fresh(read_merges("tiny.bpe", kTinyMerges));
  Dice dice(6);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = nasty_text(dice, 6);
    const Ids first = fresh.encode(text);
    ASSERT_EQ(fresh.encode(text), first);
    ASSERT_EQ(tiny().encode(text), first);
  }
}

TEST(Bpe, EveryTextReadsBack) {
  Dice dice(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = i % 2 == 0 ? random_bytes(dice, 200) : nasty_text(dice, 40);
    ASSERT_EQ(tiny().decode(tiny().encode(text)), text);
  }
}

TEST(Bpe, AnyIdsDecode) {
  Dice dice(8);
  Ids ids;
  std::string want;
  for (int i = 0; i < 5000; ++i) {
    ids.push_back(static_cast<Id>(dice.roll(static_cast<std::size_t>(tiny().vocab_size()))));
    want += tiny().model().pieces[static_cast<std::size_t>(ids.back())];
  }
  EXPECT_EQ(tiny().decode(ids), want);
}

TEST(Bpe, AnIdBeyondTheVocabularyIsRefusedAndNothingIsAppended) {
  std::string bytes = "kept";
  const Ids ids = {1, 2, tiny().vocab_size()};
  EXPECT_THROW(tiny().decode_into(ids, bytes), RequestError);
  EXPECT_EQ(bytes, "kept");
}

TEST(Bpe, AMegabyteWithoutASpaceTakesNoQuadraticTime) {
  Dice dice(9);
  const std::string word = long_word(dice, 1 << 20);
  const Ids ids = tiny().encode(word);  // quadratic time would be hours
  EXPECT_EQ(tiny().decode(ids), word);
}

TEST(Bpe, SpecialTokensCountOnlyWhenAllowed) {
  const Id end = tiny().special_id(kEndOfText);
  EXPECT_EQ(end, tiny().vocab_size() - 1);
  const std::string text = "a<|endoftext|> b<|endoftext|><|endoftext";
  const Ids ids = tiny().encode(text, Specials::recognized);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 2);
  EXPECT_EQ(tiny().decode(ids), text);
  Ids want = tiny().encode("a");
  want.push_back(end);
  for (const Id id : tiny().encode(" b")) want.push_back(id);
  want.push_back(end);
  for (const Id id : tiny().encode("<|endoftext")) want.push_back(id);
  EXPECT_EQ(ids, want);
  const Ids plain = tiny().encode(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(tiny().decode(plain), text);
}

TEST(Bpe, TheLongestSpecialTokenWins) {
  BpeModel model = read_merges("x", "a b\n");
  model.specials = {{"<a>", 257}, {"<a><b>", 258}};
  model.pieces.resize(257);
  model.pieces.emplace_back("<a>");
  model.pieces.emplace_back("<a><b>");
  const BpeTokenizer bpe(model);
  EXPECT_EQ(bpe.encode("<a><b><a>ab", Specials::recognized), (Ids{258, 257, 256}));
}

TEST(Bpe, IdsDoNotDependOnTheNumberOfThreads) {
  Dice dice(10);
  std::string text;
  while (text.size() < (std::size_t{3} << 20)) {
    text += nasty_text(dice, 200);
    if (dice.roll(4) == 0) text += kEndOfText;
  }
  for (const Specials specials : {Specials::as_text, Specials::recognized}) {
    Ids whole;  // in pieces that nobody cuts
    {
      const ThreadScope one(1);
      whole = tiny().encode(text, specials);
    }
    for (const int threads : {2, 3, 7}) {
      const ThreadScope scope(threads);
      EXPECT_EQ(tiny().encode(text, specials), whole) << threads;
    }
  }
  const ReferenceBpe reference(tiny().model());  // and the parts are those of the whole
  EXPECT_EQ(tiny().encode(text), reference.encode(text));
}

TEST(Bpe, SeveralThreadsMayEncodeAtOnce) {
  Dice dice(11);
  const std::string text = nasty_text(dice, 20000);
  const Ids want = tiny().encode(text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (Ids& ids : got) threads.emplace_back([&] { ids = tiny().encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, want);
}

TEST(Bpe, TheFingerprintKnowsMergesAndTheirOrder) {
  const auto print = [](const char* merges) {
    return BpeTokenizer(read_merges("x", merges)).fingerprint();
  };
  EXPECT_EQ(print("a b\nc d\n"), print("#version: 0.2\na b\nc d\n"));
  EXPECT_NE(print("a b\nc d\n"), print("c d\na b\n"));
  EXPECT_NE(print("a b\nab c\n"), print("b c\na bc\n"));
  EXPECT_EQ(print("a b\n").size(), 16U);
}

/// The published vocabulary, where it is at hand; ids as the published encoder gives them.
class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(gpt2_vocabulary_path())) {
      GTEST_SKIP() << "no " << gpt2_vocabulary_path();
    }
    gpt2_ = load_tokenizer("gpt2");
  }
  std::unique_ptr<Tokenizer> gpt2_;
};

TEST_F(Gpt2, HasThePublishedIds) {
  EXPECT_EQ(gpt2_->vocab_size(), 50257);
  EXPECT_EQ(gpt2_->special_id(kEndOfText), 50256);
  EXPECT_EQ(gpt2_->encode("Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(gpt2_->encode("Hello, my dog is cute"), (Ids{15496, 11, 616, 3290, 318, 13779}));
  EXPECT_EQ(gpt2_->encode("\n\n"), (Ids{628}));
  EXPECT_EQ(gpt2_->encode("<|endoftext|>", Specials::recognized), (Ids{50256}));
  EXPECT_EQ(gpt2_->encode("<|endoftext|>"), (Ids{27, 91, 437, 1659, 5239, 91, 29}));
}

/// Scripts, emoji, combining marks, every kind of white space, as another library encodes them.
TEST_F(Gpt2, AgreesWithTheLibraryOfOthers) {
  const std::string path = NORMA_SOURCE_DIR "/tests/goldens/tokenizers/gpt2.json";
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const JsonValue golden = parse_json(path, text);
  for (const JsonValue& entry : golden.find("strings")->items) {
    Ids want;
    for (const JsonValue& id : entry.find("ids")->items) {
      want.push_back(static_cast<std::int32_t>(id.integer));
    }
    EXPECT_EQ(gpt2_->encode(entry.find("text")->text), want) << entry.find("text")->text;
  }
}

TEST_F(Gpt2, AgreesWithTheReference) {
  const auto& bpe = dynamic_cast<const BpeTokenizer&>(*gpt2_);
  const ReferenceBpe reference(bpe.model());
  Dice dice(12);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = nasty_text(dice, 12);
    ASSERT_EQ(bpe.encode(text), reference.encode(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace norma::text
