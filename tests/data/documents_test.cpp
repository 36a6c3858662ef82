#include "norma/data/documents.h"

#include <vector>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/text/words.h"
#include "tests/data/string_source.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

using test::StringSource;
using test::throws;

constexpr std::string_view kMark = "<|endoftext|>";
using Texts = std::vector<std::string>;

struct Read {
  Texts documents;
  std::vector<Texts> pieces;
};

Read read_text(const std::string& text, std::string_view separator = kMark) {
  StringSource source(text);
  Read read;
  bool fresh = true;
  read_text_documents(source, separator, [&](std::string_view piece, bool last) {
    if (fresh) {
      read.documents.emplace_back();
      read.pieces.emplace_back();
    }
    read.documents.back() += piece;
    read.pieces.back().emplace_back(piece);
    fresh = last;
  });
  return read;
}

Texts read_jsonl(const std::string& text, std::string_view field = "text") {
  StringSource source(text);
  Texts documents;
  read_jsonl_documents(
      source, field, [&](std::string_view piece, bool) { documents.emplace_back(piece); });
  return documents;
}

TEST(TextDocuments, ALineOfItsOwnSeparates) {
  EXPECT_EQ(read_text("a\nb\n<|endoftext|>\nc\n").documents, (Texts{"a\nb\n", "c\n"}));
  EXPECT_EQ(read_text("a\n<|endoftext|>\r\nb").documents, (Texts{"a\n", "b"}));
  EXPECT_EQ(read_text("a\n<|endoftext|>").documents, Texts{"a\n"});
  EXPECT_EQ(read_text("<|endoftext|>\n\n<|endoftext|>\n").documents, (Texts{"", "\n", ""}));
  EXPECT_EQ(read_text("").documents, Texts{""});
}

TEST(TextDocuments, AnythingElseIsText) {
  const std::string text = "x <|endoftext|>\n <|endoftext|>\n<|endoftext|> \n<|endoftext|";
  EXPECT_EQ(read_text(text).documents, Texts{text});
  EXPECT_EQ(read_text("a\n<|endoftext|>\nb", "").documents, Texts{"a\n<|endoftext|>\nb"});
  EXPECT_EQ(read_text("a\n---\nb", "---").documents, (Texts{"a\n", "b"}));
}

/// Separators at every place around the ends of the chunks in which a source is read.
TEST(TextDocuments, ASeparatorMayLieAcrossChunks) {
  constexpr std::size_t kChunk = 1 << 20;
  for (std::size_t shift = 0; shift <= kMark.size() + 3; ++shift) {
    std::string first(kChunk - shift, 'a');
    for (std::size_t i = 5; i < first.size(); i += 7) first[i] = ' ';
    first.back() = '\n';
    const Read read = read_text(first + std::string(kMark) + "\nb\n");
    ASSERT_EQ(read.documents, (Texts{first, "b\n"})) << shift;
  }
}

TEST(TextDocuments, WhatIsLeftOfALongLineIsNoSeparator) {
  // The cut falls before the space, and what follows the space is given with the next chunk.
  std::string line((1 << 20) - 5, 'a');
  line += " \n";
  const std::string text = line + "x" + std::string((1 << 20) - 3, 'b') + " <|endoftext|>\nend\n";
  EXPECT_EQ(read_text(text).documents, Texts{text});
}

TEST(TextDocuments, LongOnesComeInPiecesThatMayBeEncodedAlone) {
  std::string text;
  while (text.size() < (std::size_t{5} << 20)) text += say("word", text.size() % 977, "  and\n");
  const Read read = read_text(text);
  ASSERT_EQ(read.documents, Texts{text});
  const Texts& pieces = read.pieces[0];
  EXPECT_GE(pieces.size(), 4U);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    EXPECT_LE(pieces[i].size(), std::size_t{2} << 20);
    EXPECT_TRUE(text::is_cut(pieces[i].back(), pieces[i + 1].front())) << i;
  }
}

TEST(TextDocuments, TextWithoutAnySpaceIsCutAtItsLimit) {
  const std::string text(std::size_t{20} << 20, 'x');
  const Read read = read_text(text);
  ASSERT_EQ(read.documents, Texts{text});
  for (const std::string& piece : read.pieces[0]) EXPECT_LE(piece.size(), std::size_t{17} << 20);
}

TEST(JsonlDocuments, AreTheFieldOfEachLine) {
  const std::string lines = R"({"text": "a\nb", "id": 1})"
                            "\n\n \r\n"
                            R"({"id": 2, "text": ""})"
                            "\r\n"
                            R"({"text": "\u00e9\ud83d\ude00"})";
  EXPECT_EQ(read_jsonl(lines), (Texts{"a\nb", "", "é😀"}));
  EXPECT_EQ(read_jsonl(R"({"content": "x"})", "content"), Texts{"x"});
}

TEST(JsonlDocuments, LongLinesAndManyLinesAreRead) {
  const std::string large(std::size_t{3} << 20, 'y');
  std::string lines = say("{\"text\": \"", large, "\"}\n");
  for (int i = 0; i < 1000; ++i) lines += say("{\"text\": \"", i, "\"}\n");
  const Texts documents = read_jsonl(lines);
  ASSERT_EQ(documents.size(), 1001U);
  EXPECT_EQ(documents[0], large);
  EXPECT_EQ(documents[1000], "999");
}

TEST(JsonlDocuments, WhatIsWrongIsNamedWithItsLine) {
  const auto complains = [](const std::string& text,
                            std::initializer_list<std::string_view> parts) {
    return throws<Error>([&] { read_jsonl(text); }, parts);
  };
  EXPECT_TRUE(complains("{\"text\": \"a\"}\n{\"text\": \"b", {"a string: line 2", "not JSON"}));
  EXPECT_TRUE(complains("{\"body\": \"a\"}", {"line 1", "\"text\"", "it has \"body\"", "--field"}));
  EXPECT_TRUE(complains("{\"text\": 3}", {"line 1 has no text in the field \"text\""}));
  EXPECT_TRUE(complains("[1]", {"line 1", "it has nothing"}));
  EXPECT_TRUE(complains("{\"text\": \"\xFF\"}", {"line 1", "not JSON"}));
}

}  // namespace
}  // namespace norma
