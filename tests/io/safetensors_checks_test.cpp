// The reader's checks, one by one: a hand-made bad file for each, and the sentence it gets. The
// numbers are those of docs/formats/checkpoint.md.
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/io/safetensors.h"
#include "norma/io/safetensors_limits.h"
#include "norma/io/shard_index.h"
#include "tests/support/expect.h"
#include "tests/support/memory_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::MemoryDisk;
using test::throws;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 255);
  return bytes + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  return with_length(header.size(), header + std::string(data_bytes, 'd'));
}

SafetensorsLayout layout_of(const std::string& bytes) {
  MemoryDisk disk;
  disk.put("bad.safetensors", bytes);
  return SafetensorsFile(disk, "bad.safetensors").layout();
}

testing::AssertionResult refused(const std::string& bytes, std::string_view complaint) {
  return throws<Error>([&] { layout_of(bytes); }, {"bad.safetensors", complaint});
}

// One tensor "a" with the given fields, and data of the size it claims to have.
std::string tensor(const std::string& dtype,
                   const std::string& shape,
                   const std::string& offsets,
                   std::size_t data_bytes) {
  return file_of(
      say(R"({"a":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}}"),
      data_bytes);
}

TEST(SafetensorsChecks, TheTemplateOfTheseTestsIsSound) {
  EXPECT_EQ(layout_of(tensor(R"("F32")", "[2]", "[0,8]", 8)).tensors.at(0).bytes(), 8U);
}

TEST(SafetensorsChecks, C01_NotARegularFileOrTooShort) {
  EXPECT_TRUE(refused("", "it has 0 bytes"));
  EXPECT_TRUE(refused("1234567", "it has 7 bytes, and the length of its header takes 8"));
  const test::TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(throws<Error>([&] { SafetensorsFile(real_file_system(), folder / "pipe"); },
                            {"pipe", "not a regular file"}));
  EXPECT_TRUE(throws<Error>([&] { SafetensorsFile(real_file_system(), folder.path()); },
                            {folder.path(), "not a regular file"}));
}

TEST(SafetensorsChecks, C02_LengthOfTheHeader) {
  EXPECT_TRUE(refused(with_length(100'000'001, "{}"), "claims 100000001 bytes; at most 100000000"));
  EXPECT_TRUE(refused(with_length(~0ULL, "{}"), "claims 18446744073709551615 bytes"));
  EXPECT_TRUE(refused(with_length(~0ULL - 7, "{}"), "claims 18446744073709551608 bytes"));
  EXPECT_TRUE(refused(with_length(3, "{}"), "claims 3 bytes, and 2 follow"));
  EXPECT_TRUE(refused(with_length(100'000'000, "{}"), "claims 100000000 bytes, and 2 follow"));
  EXPECT_TRUE(refused(with_length(0, "{}"), "claims 0 bytes"));
  EXPECT_TRUE(refused(with_length(1, "{}"), "claims 1 bytes"));
}

TEST(SafetensorsChecks, C03_Utf8) {
  EXPECT_TRUE(refused(file_of("{\"__metadata__\":{\"a\":\"\xc0\x80\"}}"),
                      "JSON byte 22: this is not UTF-8"));
  EXPECT_TRUE(refused(file_of("{\"__metadata__\":{\"a\":\"\xed\xa0\x80\"}}"), "not UTF-8"));
}

TEST(SafetensorsChecks, C04_WhatComesBeforeAndAfter) {
  EXPECT_TRUE(refused(file_of("[]"), "expected '{'"));
  EXPECT_TRUE(refused(file_of("\"\""), "expected '{'"));
  EXPECT_TRUE(refused(file_of("{}x"), "follows the end"));
  EXPECT_TRUE(refused(file_of(std::string("{}\0", 3)), "follows the end"));
  EXPECT_TRUE(refused(file_of("{}{}"), "follows the end"));
  EXPECT_TRUE(refused(file_of("\xef\xbb\xbf{}"), "expected '{'"));  // a byte order mark
  EXPECT_EQ(layout_of(file_of("{} \t\n\r  ")).remarks.size(), 0U);
  const SafetensorsLayout spaced = layout_of(file_of("      {}"));
  ASSERT_EQ(spaced.remarks.size(), 1U);
  EXPECT_EQ(spaced.remarks[0], "the header begins with white space.");
}

TEST(SafetensorsChecks, C05_StrictJson) {
  EXPECT_TRUE(refused(file_of("{/**/}"), "expected '\"'"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{},})"), "expected '\"'"));
  EXPECT_TRUE(refused(file_of("{\"__metadata__\":{\"a\":\"\n\"}}"), "raw byte 10"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"a":"\ud800"}})"), "surrogate"));
  EXPECT_TRUE(refused(tensor(R"("F32")", "[[[[2]]]]", "[0,8]", 8), "whole number"));
  EXPECT_TRUE(refused(file_of("{'a':1}"), "expected '\"'"));
}

TEST(SafetensorsChecks, C06_NothingComesTwice) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(refused(file_of(say("{", a, ",", a, "}"), 1), "\"a\" comes twice"));
  EXPECT_TRUE(
      refused(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
              "\"dtype\" comes twice"));
  EXPECT_TRUE(
      refused(file_of(R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1),
              "\"shape\" comes twice"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "\"k\" comes twice"));
  EXPECT_TRUE(
      refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "\"__metadata__\" comes twice"));
}

TEST(SafetensorsChecks, C07_MetadataAreStrings) {
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"a":1}})"), "expected '\"'"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"a":null}})"), "expected '\"'"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":[]})"), "expected '{'"));
  const std::string large((1 << 20) - 1, 'v');
  EXPECT_EQ(layout_of(file_of(say(R"({"__metadata__":{"k":")", large, R"("}})"))).metadata.size(),
            1U);
  EXPECT_TRUE(refused(file_of(say(R"({"__metadata__":{"kk":")", large, R"("}})")),
                      "exceeds 1048576 bytes"));
  std::string many = R"({"__metadata__":{"0":"")";
  for (int i = 1; i <= 10'000; ++i) many += say(",\"", i, "\":\"\"");
  EXPECT_TRUE(refused(file_of(many + "}}"), "more than 10000 entries"));
}

TEST(SafetensorsChecks, C08_NamesAndKeys) {
  const std::string fields = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_TRUE(refused(file_of(say(R"({"":)", fields, "}"), 1), "name has 0 bytes"));
  EXPECT_TRUE(refused(file_of(say("{\"", std::string(1025, 'n'), "\":", fields, "}"), 1),
                      "name has 1025 bytes"));
  EXPECT_TRUE(refused(file_of(say(R"({"a\u0000b":)", fields, "}"), 1), "holds a NUL"));
  EXPECT_TRUE(refused(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
                      "\"a\" has the unknown key \"x\""));
  EXPECT_TRUE(
      refused(file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "\"a\" has no dtype"));
  EXPECT_TRUE(
      refused(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "\"a\" has no shape"));
  EXPECT_TRUE(
      refused(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "\"a\" has no data_offsets"));
}

TEST(SafetensorsChecks, C08_AMillionTensorsAndNoMore) {
  std::string header = "{";
  for (std::uint64_t i = 0; i <= kMaxTensors; ++i) {
    header +=
        say(i > 0 ? "," : "", "\"", i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  }
  EXPECT_TRUE(refused(file_of(header + "}"), "more than 1000000 tensors"));
}

TEST(SafetensorsChecks, C09_UnknownTypesRefuseTheFile) {
  EXPECT_TRUE(
      refused(tensor(R"("F33")", "[1]", "[0,4]", 4), "\"a\" has the unknown dtype \"F33\""));
  EXPECT_TRUE(refused(tensor(R"("f32")", "[1]", "[0,4]", 4), "unknown dtype \"f32\""));
  EXPECT_TRUE(refused(tensor(R"("")", "[1]", "[0,4]", 4), "unknown dtype \"\""));
  EXPECT_TRUE(refused(tensor("7", "[1]", "[0,4]", 4), "expected '\"'"));
}

TEST(SafetensorsChecks, C10_ShapesAreWholeNumbers) {
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1e3]", "[0,1000]", 1000), "exponent"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1.0]", "[0,1]", 1), "fraction"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[-1]", "[0,1]", 1), "found '-'"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[-0]", "[0,0]", 0), "found '-'"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[01]", "[0,1]", 1), "leading zero"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[\"1\"]", "[0,1]", 1), "whole number"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "1", "[0,1]", 1), "expected '['"));
  EXPECT_TRUE(
      refused(tensor(R"("U8")", "[281474976710656]", "[0,1]", 1), "281474976710656 is beyond"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[18446744073709551616]", "[0,1]", 1), "64 bits"));
  EXPECT_EQ(
      layout_of(tensor(R"("U8")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1)).tensors.size(),
      1U);
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]", 1),
                      "more than 16"));
}

TEST(SafetensorsChecks, C11_ProductsDoNotWrap) {
  // 8 · 2^31 · 2^30 bits are 2^64, one too many to count: they wrap to 0.
  EXPECT_TRUE(
      refused(tensor(R"("U8")", "[2147483648,1073741824]", "[0,0]", 0), "64 bits can count"));
  // 2^32 · 2^32 wraps to 0: an overflow, not an empty tensor.
  EXPECT_TRUE(
      refused(tensor(R"("U8")", "[4294967296,4294967296]", "[0,0]", 0), "64 bits can count"));
  EXPECT_TRUE(
      refused(tensor(R"("F64")", "[281474976710655,65536]", "[0,8]", 8), "64 bits can count"));
  EXPECT_TRUE(refused(tensor(R"("F4")", "[3]", "[0,1]", 1), "no whole number of bytes"));
  EXPECT_TRUE(refused(tensor(R"("F6_E2M3")", "[2]", "[0,1]", 1), "no whole number of bytes"));
  EXPECT_EQ(layout_of(tensor(R"("F6_E2M3")", "[4]", "[0,3]", 3)).tensors.at(0).bytes(), 3U);
  EXPECT_EQ(layout_of(tensor(R"("F32")", "[5,0]", "[0,0]", 0)).tensors.at(0).bytes(), 0U);
  EXPECT_TRUE(refused(tensor(R"("F32")", "[5,0]", "[0,4]", 4), "takes 0 bytes, but spans 4"));
}

TEST(SafetensorsChecks, C12_Offsets) {
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[0]", 1), "fewer than two data_offsets"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[]", 1), "fewer than two data_offsets"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[0,1,1]", 1), "more than two data_offsets"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[1,0]", 1), "begins at 1 and ends before, at 0"));
  EXPECT_TRUE(
      refused(tensor(R"("U8")", "[9]", "[0,9]", 8), "ends at 9, and the file has 8 bytes of data"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[18446744073709551614,18446744073709551615]", 1),
                      "ends at 1844"));
  EXPECT_TRUE(
      refused(tensor(R"("F32")", "[2]", "[0,4]", 4), "is F32 (2) and takes 8 bytes, but spans 4"));
  EXPECT_TRUE(refused(tensor(R"("F32")", "[2]", "[0,9]", 9), "takes 8 bytes, but spans 9"));
  EXPECT_TRUE(refused(tensor(R"("U8")", "[1]", "[-0,1]", 1), "found '-'"));
}

TEST(SafetensorsChecks, C13_NoHoleNoOverlapNoRest) {
  const auto two = [](int a0, int a1, int b0, int b1, std::size_t bytes) {
    return file_of(say(R"({"a":{"dtype":"U8","shape":[)",
                       a1 - a0,
                       R"(],"data_offsets":[)",
                       a0,
                       ",",
                       a1,
                       R"(]},"b":{"dtype":"U8","shape":[)",
                       b1 - b0,
                       R"(],"data_offsets":[)",
                       b0,
                       ",",
                       b1,
                       "]}}"),
                   bytes);
  };
  EXPECT_EQ(layout_of(two(4, 8, 0, 4, 8)).tensors.at(0).name, "b");  // any order in the header
  EXPECT_TRUE(refused(two(0, 4, 5, 8, 8), "\"b\" begins at 5, which leaves a hole after 4"));
  EXPECT_TRUE(refused(two(1, 4, 4, 8, 8), "\"a\" begins at 1, which leaves a hole after 0"));
  EXPECT_TRUE(refused(two(0, 5, 4, 8, 8), "\"b\" begins at 4, which overlaps"));
  EXPECT_TRUE(refused(two(0, 8, 0, 8, 8), "overlaps"));
  EXPECT_TRUE(refused(two(0, 4, 4, 8, 9), "tensors end at 8, and it has 9 bytes"));
  EXPECT_TRUE(refused(file_of("{}", 1), "tensors end at 0, and it has 1 bytes"));
}

TEST(SafetensorsChecks, C14_UnalignedDataAreReadAndRemarkedUpon) {
  MemoryDisk disk;
  disk.put("odd", file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  const SafetensorsFile file(disk, "odd");
  std::string bytes(3, '\0');
  file.read(file.layout().tensors.at(0), std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "ddd");
  ASSERT_EQ(file.layout().remarks.size(), 1U);
  EXPECT_EQ(file.layout().remarks[0], "the data begin at byte 61, which is no multiple of 8.");
}

// Check 15: a header that promises a petabyte is refused by the size of the file, before any
// memory is asked for. Check 16 is require_tensors (safetensors_test), 17 the digests
// (commit_test).
TEST(SafetensorsChecks, C15_PromisesOfMemoryAreNotBelieved) {
  EXPECT_TRUE(refused(tensor(R"("U8")", "[281474976710655]", "[0,281474976710655]", 8),
                      "ends at 281474976710655, and the file has 8 bytes of data"));
}

TEST(SafetensorsChecks, C18_ShardsStayInTheirFolder) {
  const auto index_of = [](const std::string& text) {
    MemoryDisk disk;
    disk.put("m.index.json", text);
    return read_shard_index(File(disk, "m.index.json", OpenAs::read));
  };
  const ShardIndex good = index_of(
      R"({"metadata":{"total_size":12,"by":"x"},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  EXPECT_EQ(good.shard_of.at("b"), "m-2.safetensors");
  for (const char* name : {"../m", "/etc/passwd", "a/b", "..", "", "a\\u0000"}) {
    EXPECT_TRUE(throws<Error>([&] { index_of(say(R"({"weight_map":{"a":")", name, "\"}}")); },
                              {"m.index.json", "not the name of a file beside the index"}))
        << name;
  }
  EXPECT_TRUE(
      throws<Error>([&] { index_of(R"({"weight_map":{"a":"1","a":"2"}})"); }, {"comes twice"}));
  EXPECT_TRUE(throws<Error>([&] { index_of(R"({"metadata":{}})"); }, {"has no weight_map"}));
  EXPECT_TRUE(
      throws<Error>([&] { index_of(R"({"weight_map":{},"x":1})"); }, {"unknown key \"x\""}));

  const auto holding = [](const std::string& name) {
    return layout_of(
        file_of(say("{\"", name, R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"), 1));
  };
  require_shards("i", good, {{"m-1.safetensors", holding("a")}, {"m-2.safetensors", holding("b")}});
  EXPECT_TRUE(throws<Error>(
      [&] {
        require_shards(
            "i", good, {{"m-1.safetensors", holding("a")}, {"m-2.safetensors", holding("a")}});
      },
      {"m-2.safetensors holds \"a\", which i places in m-1.safetensors"}));
  EXPECT_TRUE(throws<Error>(
      [&] {
        require_shards(
            "i", good, {{"m-1.safetensors", holding("z")}, {"m-2.safetensors", holding("b")}});
      },
      {"m-1.safetensors holds \"z\", which i does not name"}));
  EXPECT_TRUE(throws<Error>(
      [&] {
        require_shards("i", good, {{"m-1.safetensors", holding("a")}, {"m-2.safetensors", {}}});
      },
      {"i places \"b\" in m-2.safetensors, which does not hold it"}));
}

}  // namespace
}  // namespace norma::io
