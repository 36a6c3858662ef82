#include "norma/text/bpe_training.h"

#include <map>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_alphabet.h"
#include "tests/text/reference.h"

namespace norma::text {
namespace {

BpeModel train(const std::vector<std::string>& documents, Id vocab_size) {
  BpeTrainer trainer({.vocab_size = vocab_size});
  for (const std::string& document : documents) trainer.add(document);
  return trainer.train();
}

/// Counts every pair of every word anew for each merge.
std::vector<Merge> naive_merges(const std::vector<std::string>& documents, std::size_t wanted) {
  std::vector<Ids> words;
  std::map<std::uint8_t, Id> ids;
  for (int id = 0; id < 256; ++id) ids[byte_of_id(id)] = id;
  for (const std::string& document : documents) {
    for (const std::string& word : reference_words(document)) {
      words.emplace_back();
      for (const char c : word) words.back().push_back(ids[static_cast<std::uint8_t>(c)]);
    }
  }
  std::vector<Merge> merges;
  while (merges.size() < wanted) {
    std::map<std::pair<Id, Id>, std::size_t> counts;
    for (const Ids& word : words) {
      for (std::size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
    }
    std::pair<Id, Id> best;
    std::size_t most = 1;
    for (const auto& [pair, count] : counts) {
      if (count > most) {  // of equal ones the map gives the smallest pair first
        most = count;
        best = pair;
      }
    }
    if (most < 2) break;
    const Id result = static_cast<Id>(256 + merges.size());
    merges.push_back({best.first, best.second, result});
    for (Ids& word : words) {
      Ids next;
      for (std::size_t i = 0; i < word.size(); ++i) {
        const bool here =
            i + 1 < word.size() && word[i] == best.first && word[i + 1] == best.second;
        next.push_back(here ? result : word[i]);
        if (here) ++i;
      }
      word = next;
    }
  }
  return merges;
}

std::string babble(Dice& dice, std::size_t words) {
  static const std::vector<std::string> kLetters = {"a", "b", "ab", "aa", "c", "ba", "é", "aaa"};
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    for (std::size_t k = 1 + dice.roll(6); k > 0; --k) text += dice.pick(kLetters);
    text += dice.pick(std::vector<std::string>{" ", " ", "\n", "  ", "'s "});
  }
  return text;
}

TEST(BpeTraining, AgreesWithCountingEverythingAnew) {
  Dice dice(20);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::string> documents;
    for (std::size_t k = 1 + dice.roll(4); k > 0; --k) {
      documents.push_back(i % 4 == 0 ? nasty_text(dice, 150) : babble(dice, 60));
    }
    const std::vector<Merge> want = naive_merges(documents, 120);
    const BpeModel model = train(documents, static_cast<Id>(256 + want.size() + 1));
    ASSERT_EQ(model.merges, want) << i;
  }
}

TEST(BpeTraining, TakesTheFirstOfEquallyFrequentPairs) {
  // "ab" and "cd" occur twice each; the id of a is smaller than that of c.
  const BpeModel model = train({"cd ab", "cd", "ab"}, 258);
  ASSERT_EQ(model.merges.size(), 1U);
  EXPECT_EQ(model.pieces[256], "ab");
}

TEST(BpeTraining, DoesNotDependOnTheOrderOfTheDocuments) {
  Dice dice(21);
  const std::string a = babble(dice, 200);
  const std::string b = nasty_text(dice, 300);
  const std::string c = babble(dice, 100);
  const std::vector<Merge> want = train({a, b, c}, 400).merges;
  EXPECT_GT(want.size(), 100U);
  EXPECT_EQ(train({c, a, b}, 400).merges, want);
  EXPECT_EQ(train({a + std::string(kEndOfText) + b + std::string(kEndOfText) + c}, 400).merges,
            want);
}

TEST(BpeTraining, StopsWhenNoPairOccursTwice) {
  const BpeModel model = train({"abab"}, 1000);
  EXPECT_EQ(model.merges.size(), 1U);
  EXPECT_EQ(model.pieces.size(), 258U);
  EXPECT_EQ(model.specials, (std::vector<SpecialToken>{{std::string(kEndOfText), 257}}));
}

TEST(BpeTraining, NoMergeCrossesAWordADocumentOrASpecialToken) {
  const std::string line = "x<|endoftext|>y\n";
  const BpeModel model = train({line + line + line + line}, 300);
  EXPECT_EQ(model.merges.size(), 0U);
}

TEST(BpeTraining, LeavesOutWordsOfExcessiveLength) {
  BpeTrainer trainer({.vocab_size = 300, .longest_word = 8});
  trainer.add("abababababab cdcd");
  const BpeModel model = trainer.train();
  ASSERT_EQ(model.merges.size(), 1U);
  EXPECT_EQ(model.pieces[256], "cd");
}

TEST(BpeTraining, RefusesVocabulariesWithoutRoom) {
  EXPECT_THROW(BpeTrainer({.vocab_size = 256}), RequestError);
  EXPECT_THROW(BpeTrainer({.vocab_size = -5}), RequestError);
  EXPECT_NO_THROW(BpeTrainer({.vocab_size = 257}));
}

TEST(BpeTraining, ReportsProgressToTheEnd) {
  BpeTrainer trainer({.vocab_size = 500});
  Dice dice(22);
  trainer.add(babble(dice, 2000));
  std::vector<std::size_t> made;
  const BpeModel model = trainer.train([&](std::size_t now, std::size_t wanted) {
    made.push_back(now);
    EXPECT_EQ(wanted, 243U);
  });
  ASSERT_GE(made.size(), 2U);
  EXPECT_EQ(made.back(), model.merges.size());
}

TEST(BpeTraining, WhatWasLearntEncodesAndReadsBackFromItsFiles) {
  Dice dice(23);
  const BpeModel model = train({babble(dice, 500), nasty_text(dice, 500)}, 450);
  const BpeTokenizer learnt(model);
  const BpeTokenizer read(read_tokenizer_json("t.json", tokenizer_json(model)));
  const std::string vocab = vocab_json(model);
  const std::string merges = merges_txt(model);
  const BpeTokenizer pair(read_vocab_and_merges({"vocab.json", vocab}, {"merges.txt", merges}));
  const BpeTokenizer alone(read_merges("vocab.bpe", merges));
  const ReferenceBpe reference(model);
  const std::string text = babble(dice, 300) + nasty_text(dice, 300);
  EXPECT_EQ(learnt.encode(text), reference.encode(text));
  for (const BpeTokenizer* other : {&read, &pair, &alone}) {
    EXPECT_EQ(other->fingerprint(), learnt.fingerprint());
    EXPECT_EQ(other->special_tokens(), learnt.special_tokens());
    EXPECT_EQ(other->encode(text, Specials::recognized), learnt.encode(text, Specials::recognized));
  }
}

}  // namespace
}  // namespace norma::text
