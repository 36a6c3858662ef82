#include "norma/io/safetensors.h"

#include <random>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"

namespace norma::io {
namespace {

using test::MemoryDisk;
using test::throws;

const StoredType* type(std::string_view word) { return find_stored_type(word); }

Bytes bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text)); }

// Every tensor gets bytes of its own letter, so that a wrong offset shows.
void write_all(ByteSink& sink, const std::vector<TensorSpec>& specs, const Metadata& metadata) {
  SafetensorsWriter writer(sink, specs, metadata);
  for (const StoredTensor& tensor : writer.order()) {
    writer.write(tensor.name, bytes_of_text(std::string(tensor.bytes(), tensor.name[0])));
  }
  writer.finish();
}

std::string written(const std::vector<TensorSpec>& specs, const Metadata& metadata = {}) {
  MemoryDisk disk;
  File file(disk, "x", OpenAs::create_new);
  write_all(file, specs, metadata);
  return disk.bytes_of("x");
}

TEST(Safetensors, TheWriterWritesTheseBytes) {
  const std::string header = R"({"__metadata__":{"format":"pt"},)"
                             R"("b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},)"
                             R"("d":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
                             R"("c":{"dtype":"BF16","shape":[0,7],"data_offsets":[20,20]},)"
                             R"("e":{"dtype":"U8","shape":[3],"data_offsets":[20,23]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(padded.size() & 255);
  length[1] = static_cast<char>(padded.size() >> 8);
  EXPECT_EQ(written({{"a", type("F32"), {2, 1}},
                     {"e", type("U8"), {3}},
                     {"d", type("F32"), {}},
                     {"c", type("BF16"), {0, 7}},
                     {"b", type("F64"), {1}}},
                    {{"format", "pt"}}),
            length + padded + "bbbbbbbb" + "aaaaaaaa" + "dddd" + "eee");
}

TEST(Safetensors, AFileWithoutTensorsIsAFile) {
  EXPECT_EQ(written({}), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  MemoryDisk disk;
  disk.put("x", written({}));
  EXPECT_TRUE(SafetensorsFile(disk, "x").layout().tensors.empty());
}

TEST(Safetensors, RandomFilesComeBackAsTheyWere) {
  std::mt19937_64 random(7);
  const std::vector<std::string_view> words = {
      "F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F4", "C64", "I32", "U16", "F8_E4M3"};
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorSpec> specs;
    std::map<std::string, std::string> contents;
    for (std::uint64_t i = random() % 12; i > 0; --i) {
      TensorSpec spec{say("layer.", i, " \"γ\"\n"), type(words[random() % words.size()]), {2}};
      for (std::uint64_t rank = random() % 4; rank > 0; --rank) spec.shape.push_back(random() % 5);
      std::string bytes(bytes_of(spec), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      contents[spec.name] = bytes;
      specs.push_back(std::move(spec));
    }
    const Metadata metadata = {{"step", "12"}, {"note", "a\tb"}};
    MemoryDisk disk;
    File file(disk, "x", OpenAs::create_new);
    SafetensorsWriter writer(file, specs, metadata);
    for (const StoredTensor& tensor : writer.order()) {
      const Bytes bytes = bytes_of_text(contents[tensor.name]);
      const std::size_t cut = bytes.empty() ? 0 : random() % bytes.size();
      writer.write(tensor.name, bytes.first(cut));
      writer.write(tensor.name, bytes.subspan(cut));
    }
    writer.finish();
    EXPECT_EQ(disk.bytes_of("x").size(), writer.file_bytes());

    const SafetensorsFile back(disk, "x");
    EXPECT_EQ(back.layout().metadata, metadata);
    EXPECT_EQ(back.layout().data_start % 8, 0U);
    EXPECT_TRUE(back.layout().remarks.empty());
    ASSERT_EQ(back.layout().tensors.size(), specs.size());
    require_tensors("x", back.layout(), specs);
    for (const StoredTensor& tensor : back.layout().tensors) {
      std::string bytes(tensor.bytes(), '\0');
      back.read(tensor, std::as_writable_bytes(std::span(bytes)));
      EXPECT_EQ(bytes, contents[tensor.name]);
      // Alignment falls along the file, so every tensor starts on a multiple of its own.
      EXPECT_EQ((back.layout().data_start + tensor.begin) % tensor.type->alignment, 0U);
    }
  }
}

TEST(Safetensors, PartsOfATensorAndNothingBeyondIt) {
  MemoryDisk disk;
  disk.put("x", written({{"a", type("F32"), {2}}, {"b", type("F32"), {1}}}));
  const SafetensorsFile file(disk, "x");
  const StoredTensor& a = *file.layout().find("a");
  std::string bytes(3, '\0');
  file.read(a, 5, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "aaa");
  EXPECT_TRUE(throws<RequestError>(
      [&] { file.read(a, 6, std::as_writable_bytes(std::span(bytes))); }, {"outside a", "8"}));
  EXPECT_TRUE(throws<RequestError>(
      [&] { file.read(a, ~0ULL, std::as_writable_bytes(std::span(bytes))); }, {"outside a"}));
  EXPECT_EQ(file.layout().find("c"), nullptr);
}

TEST(Safetensors, TheWriterInsistsOnItsOrder) {
  MemoryDisk disk;
  File file(disk, "x", OpenAs::create_new);
  SafetensorsWriter writer(file, {{"b", type("U8"), {2}}, {"a", type("U8"), {2}}}, {});
  EXPECT_TRUE(throws<Error>([&] { writer.write("b", bytes_of_text("xx")); },
                            {"data of b came when a was due"}));
  EXPECT_TRUE(throws<Error>([&] { writer.write("a", bytes_of_text("xxx")); },
                            {"3 bytes came for a, which lacks 2"}));
  writer.write("a", bytes_of_text("xx"));
  writer.write("b", bytes_of_text("y"));
  EXPECT_TRUE(throws<Error>([&] { writer.finish(); }, {"the data of b did not come"}));
  writer.write("b", bytes_of_text("z"));
  writer.finish();
  EXPECT_TRUE(throws<Error>([&] { writer.write("b", bytes_of_text("z")); }, {"nothing more"}));
}

TEST(Safetensors, TheWriterRefusesWhatTheReaderWould) {
  const std::uint64_t big = (std::uint64_t{1} << 48) - 1;
  const auto refuses =
      [](std::vector<TensorSpec> specs, std::string_view complaint, Metadata metadata = {}) {
        MemoryDisk disk;
        File file(disk, "x", OpenAs::create_new);
        const auto result =
            throws<RequestError>([&] { SafetensorsWriter(file, specs, metadata); }, {complaint});
        EXPECT_TRUE(result);
        EXPECT_EQ(disk.bytes_of("x"), "");
      };
  refuses({{"", type("U8"), {1}}}, "cannot name a tensor");
  refuses({{std::string(1025, 'a'), type("U8"), {1}}}, "cannot name a tensor");
  refuses({{std::string("a\0b", 3), type("U8"), {1}}}, "cannot name a tensor");
  refuses({{"\xff", type("U8"), {1}}}, "cannot name a tensor");
  refuses({{"__metadata__", type("U8"), {1}}}, "cannot name a tensor");
  refuses({{"a", type("U8"), {1}}, {"a", type("F32"), {1}}}, "two tensors are named a");
  refuses({{"a", nullptr, {1}}}, "has no type");
  refuses({{"a", type("F4"), {3}}}, "no whole number of bytes");
  refuses({{"a", type("U8"), {big, big}}}, "more bits than 64 bits can count");
  refuses({{"a", type("U8"), {big, big, 0}}}, "more bits than 64 bits can count");
  refuses({{"a", type("U8"), {big + 1}}}, "has an extent of");
  refuses({{"a", type("U8"), std::vector<std::uint64_t>(17, 1)}}, "more than 16 extents");
  refuses({}, "metadata", {{"k", std::string(1 << 20, 'v')}});
  refuses({}, "must be UTF-8", {{"k", "\xff"}});
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole =
      written({{"a", type("F32"), {3, 2}}, {"b", type("U8"), {5}}}, {{"format", "pt"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    MemoryDisk disk;
    disk.put("x", whole.substr(0, length));
    EXPECT_TRUE(throws<Error>([&] { SafetensorsFile(disk, "x"); }, {"x"})) << length;
  }
  MemoryDisk disk;
  disk.put("x", whole + "!");
  EXPECT_TRUE(
      throws<Error>([&] { SafetensorsFile(disk, "x"); }, {"tensors end at 29", "30 bytes"}));
}

// Any header byte may be anything: the reader answers with a layout or a sentence, and a layout
// that it returns tiles the data.
TEST(Safetensors, DamagedHeadersNeverPassUnnoticedOrCrash) {
  const std::string whole =
      written({{"a", type("F32"), {3, 2}}, {"b", type("U8"), {5}}}, {{"format", "pt"}});
  for (std::size_t at = 0; at < whole.size() - 29; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      MemoryDisk disk;
      disk.put("x", damaged);
      try {
        const SafetensorsFile file(disk, "x");
        std::uint64_t reached = 0;
        for (const StoredTensor& tensor : file.layout().tensors) {
          ASSERT_EQ(tensor.begin, reached);
          ASSERT_EQ(tensor.bytes(), bytes_of(tensor));
          reached = tensor.end;
        }
        ASSERT_EQ(reached, 29U);
      } catch (const Error& error) {
        ASSERT_EQ(std::string_view(error.what()).substr(0, 1), "x");
      }
    }
  }
}

TEST(Safetensors, AModelOfAnotherShapeIsRefusedInOneSentence) {
  MemoryDisk disk;
  std::vector<TensorSpec> stored = {{"same", type("F32"), {2}},
                                    {"shape", type("F32"), {2, 3}},
                                    {"type", type("F32"), {2}},
                                    {"extra", type("F32"), {1}}};
  disk.put("x", written(stored));
  const SafetensorsFile file(disk, "x");
  require_tensors("x", file.layout(), stored);
  std::vector<TensorSpec> wanted = {
      {"same", type("F32"), {2}}, {"shape", type("F32"), {3, 2}}, {"type", type("BF16"), {2}}};
  for (int i = 0; i < 12; ++i) wanted.push_back({say("m", i), type("F32"), {1}});
  EXPECT_TRUE(throws<Error>([&] { require_tensors("x", file.layout(), wanted); },
                            {"x does not fit the model, and nothing was loaded.",
                             "12 missing: m0, m1, ",
                             "m9 and 2 more.",
                             "2 different: shape is F32 (2, 3) and should be F32 (3, 2), type is",
                             ", type is F32 (2) and should be BF16 (2).",
                             "1 unexpected: extra."}));
}

TEST(Safetensors, NonFiniteValuesAreCounted) {
  const auto count =
      [](std::string_view word, const std::vector<std::uint64_t>& words, std::size_t size) {
        std::string bytes;
        for (const std::uint64_t w : words) bytes.append(reinterpret_cast<const char*>(&w), size);
        return count_non_finite(*type(word), bytes_of_text(bytes));
      };
  EXPECT_EQ(count("F32", {0x7f800000, 0xff800000, 0x7fc00001, 0x7f7fffff, 0}, 4), 3U);
  EXPECT_EQ(count("BF16", {0x7f80, 0xffc0, 0x7f7f, 0x3f80}, 2), 2U);
  EXPECT_EQ(count("F16", {0x7c00, 0xfe00, 0x7bff}, 2), 2U);
  EXPECT_EQ(count("F64", {0x7ff0000000000000, 0x7fefffffffffffff}, 8), 1U);
  EXPECT_EQ(count("I32", {0x7f800000}, 4), 0U);
}

TEST(Safetensors, TheWordsOfTheFormatHaveTheirSizes) {
  for (const auto& [word, bits] : std::initializer_list<std::pair<const char*, std::uint32_t>>{
           {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},
           {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
           {"I16", 16}, {"U16", 16},    {"F8_E5M2FNUZ", 8}, {"F16", 16},    {"BF16", 16},
           {"I32", 32}, {"U32", 32},    {"F32", 32},        {"C64", 64},    {"F64", 64},
           {"I64", 64}, {"U64", 64}}) {
    ASSERT_NE(type(word), nullptr) << word;
    EXPECT_EQ(type(word)->bits, bits) << word;
  }
  EXPECT_EQ(type("f32"), nullptr);
  EXPECT_EQ(type("F128"), nullptr);
}

}  // namespace
}  // namespace norma::io
