// Streams of bytes: every format packed by its own library and read back, whole and spoilt.
#include "norma/io/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <lzma.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/io/file.h"
#include "tests/support/expect.h"
#include "tests/support/faulty_disk.h"
#include "tests/support/memory_disk.h"
#include "tests/support/temp_folder.h"

namespace norma::io {
namespace {

using test::FaultyDisk;
using test::MemoryDisk;
using test::throws;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string xz(const std::string& text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6,
                                    LZMA_CHECK_CRC64,
                                    nullptr,
                                    reinterpret_cast<const std::uint8_t*>(text.data()),
                                    text.size(),
                                    reinterpret_cast<std::uint8_t*>(packed.data()),
                                    &size,
                                    packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}

std::string zstd_with(const std::string& text, ZSTD_cParameter parameter, int value) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, parameter, value);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

std::string zstd(const std::string& text) { return zstd_with(text, ZSTD_c_compressionLevel, 3); }

struct Format {
  const char* name;
  std::string (*pack)(const std::string&);
  std::size_t magic;  // shorter pieces of a file cannot be told from plain bytes
};
const std::vector<Format>& formats() {
  static const std::vector<Format> kAll = {{"gzip", gzip, 2}, {"xz", xz, 6}, {"zstd", zstd, 4}};
  return kAll;
}

/// Text that packs to about half: words, with numbers among them.
std::string sample_text(std::size_t bytes) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    text += say("the whale number ", random_word({.seed = 7}, i), " swims\n");
  }
  text.resize(bytes);
  return text;
}

std::string unpack(FileSystem& disk, const std::string& path) {
  return read_text(*open_source(disk, path), 1 << 30);
}
std::string unpack_bytes(const std::string& packed) {
  MemoryDisk disk;
  disk.put("file", packed);
  return unpack(disk, "file");
}

TEST(ByteSource, ReadsWhatWasPacked) {
  for (const std::size_t bytes : {0UL, 1UL, 5UL, 1000UL, 131072UL, 700001UL}) {
    const std::string text = sample_text(bytes);
    EXPECT_TRUE(unpack_bytes(text) == text) << "plain, " << bytes;
    for (const Format& format : formats()) {
      EXPECT_TRUE(unpack_bytes(format.pack(text)) == text) << format.name << ", " << bytes;
    }
  }
}

TEST(ByteSource, ReadsFilesOfTheCommandLineTools) {
  // printf 'norma\n' | gzip -n, xz, zstd
  const auto bytes = [](std::initializer_list<int> values) {
    std::string all;
    for (const int value : values) all += static_cast<char>(value);
    return all;
  };
  EXPECT_EQ(unpack_bytes(bytes({0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                0x03, 0xcb, 0xcb, 0x2f, 0xca, 0x4d, 0xe4, 0x02, 0x00,
                                0x89, 0xac, 0x54, 0x85, 0x06, 0x00, 0x00, 0x00})),
            "norma\n");
  EXPECT_EQ(unpack_bytes(
                bytes({0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02,
                       0x00, 0x21, 0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00,
                       0x05, 0x6e, 0x6f, 0x72, 0x6d, 0x61, 0x0a, 0x00, 0x00, 0x00, 0x9d, 0x78, 0x16,
                       0xc9, 0xdf, 0x01, 0xc2, 0x71, 0x00, 0x01, 0x1e, 0x06, 0xc1, 0x2f, 0xa4, 0x1d,
                       0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a})),
            "norma\n");
  EXPECT_EQ(unpack_bytes(bytes({0x28,
                                0xb5,
                                0x2f,
                                0xfd,
                                0x04,
                                0x58,
                                0x31,
                                0x00,
                                0x00,
                                0x6e,
                                0x6f,
                                0x72,
                                0x6d,
                                0x61,
                                0x0a,
                                0x19,
                                0x5e,
                                0xac,
                                0xee})),
            "norma\n");
}

TEST(ByteSource, SmallBitesAndSmallReadsGiveTheSame) {
  const std::string text = sample_text(3000);
  for (const Format& format : formats()) {
    MemoryDisk memory;
    memory.put("file", format.pack(text));
    for (const std::size_t bite : {1UL, 2UL, 7UL}) {
      FaultyDisk disk(memory, {.bite = bite});
      const auto source = open_source(disk, "file");
      std::string all;
      std::array<char, 3> piece{};
      while (const std::size_t got = source->read(std::as_writable_bytes(std::span(piece)))) {
        all.append(piece.data(), got);
      }
      EXPECT_EQ(all, text) << format.name;
      EXPECT_EQ(source->read(std::as_writable_bytes(std::span(piece))), 0U) << "it stays ended";
    }
  }
}

TEST(ByteSource, SeveralMembersAreOneStream) {
  const std::string text = sample_text(5000);
  for (const Format& format : formats()) {
    const std::string packed =
        format.pack(text) + format.pack("") + format.pack("end") + format.pack("");
    EXPECT_EQ(unpack_bytes(packed), text + "end") << format.name;
  }
  EXPECT_EQ(unpack_bytes(gzip("a") + std::string(512, '\0')), "a");
  EXPECT_EQ(unpack_bytes(xz("a") + std::string(8, '\0') + xz("b")), "ab");
  // What parallel packers put first: a frame with four bytes of their own.
  EXPECT_EQ(unpack_bytes(std::string("\x5A\x2A\x4D\x18\4\0\0\0abcd", 12) + zstd("x")), "x");
}

TEST(ByteSource, WhatFollowsTheLastMemberIsRefused) {
  for (const Format& format : formats()) {
    const std::string packed = format.pack("some text");
    EXPECT_TRUE(throws<Error>([&] { unpack_bytes(packed + "what is this doing here?"); },
                              {"file is damaged near byte ", format.name, "Get it again."}));
  }
  EXPECT_TRUE(throws<Error>([&] { unpack_bytes(gzip("a") + std::string(9, '\0') + gzip("b")); },
                            {"the zeros after the last member"}));
}

TEST(ByteSource, EveryTruncationIsNoticed) {
  for (const Format& format : formats()) {
    const std::string packed = format.pack(sample_text(800));
    for (std::size_t size = format.magic; size < packed.size(); ++size) {
      EXPECT_TRUE(throws<Error>(
          [&] { unpack_bytes(packed.substr(0, size)); },
          {say("file ends at byte ", size, " in the middle of its "), format.name, "cut off"}))
          << format.name << " cut to " << size << " of " << packed.size();
    }
  }
}

TEST(ByteSource, EveryFlippedBitIsNoticedOrHarmless) {
  const std::string text = sample_text(300);
  for (const Format& format : formats()) {
    const std::string packed = format.pack(text);
    int refused = 0;
    for (std::size_t bit = 8 * format.magic; bit < 8 * packed.size(); ++bit) {
      std::string spoilt = packed;
      spoilt[bit / 8] = static_cast<char>(spoilt[bit / 8] ^ (1 << (bit % 8)));
      try {
        // gzip's header has a time, an operating system and flags that mean nothing to the text.
        EXPECT_EQ(unpack_bytes(spoilt), text) << format.name << " bit " << bit;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("file"), std::string::npos) << error.what();
        ++refused;
      }
    }
    EXPECT_GT(refused, static_cast<int>(8 * packed.size()) - 100) << format.name;
  }
}

TEST(ByteSource, PositionAndSizeAreThoseOfTheFile) {
  const std::string text = sample_text(900000);
  for (const Format& format : formats()) {
    MemoryDisk disk;
    const std::string packed = format.pack(text);
    disk.put("file", packed);
    const auto source = open_source(disk, "file");
    EXPECT_EQ(source->name(), "file");
    EXPECT_EQ(source->size(), packed.size());
    EXPECT_EQ(source->position(), 0U);
    std::string half(text.size() / 2, '\0');
    EXPECT_EQ(read_fully(*source, std::as_writable_bytes(std::span(half))), half.size());
    EXPECT_GT(source->position(), packed.size() / 4) << format.name;
    EXPECT_LT(source->position(), packed.size() * 3 / 4) << format.name;
    EXPECT_EQ(read_text(*source, 1 << 20), text.substr(half.size()));
    EXPECT_EQ(source->position(), packed.size());
  }
}

TEST(ByteSource, ALimitIsKept) {
  MemoryDisk disk;
  disk.put("file", gzip(sample_text(1000)));
  EXPECT_EQ(read_text(*open_source(disk, "file"), 1000).size(), 1000U);
  EXPECT_TRUE(throws<Error>([&] { read_text(*open_source(disk, "file"), 999); },
                            {"file holds more than 999 bytes"}));
}

/// Zeros pack a thousandfold; read as a stream it takes no more memory than text.
TEST(ByteSource, BombsAreReadAsAStream) {
  constexpr std::size_t kMember = std::size_t{8} << 20;
  const std::string zeros(kMember, '\0');
  for (const Format& format : formats()) {
    MemoryDisk disk;
    const std::string member = format.pack(zeros);
    std::string packed;
    for (int i = 0; i < 16; ++i) packed += member;
    disk.put("file", packed);
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    const auto source = open_source(disk, "file");
    std::vector<std::byte> piece(std::size_t{1} << 20);
    std::size_t total = 0;
    while (const std::size_t got = source->read(piece)) total += got;
    rusage after{};
    getrusage(RUSAGE_SELF, &after);
    EXPECT_EQ(total, 16 * kMember);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 << 10) << format.name << ", in KiB";
  }
}

TEST(ByteSource, AskingForTooMuchMemoryIsRefused) {
  const std::string text = sample_text(100);
  // A frame of unknown length with a window of 256 MiB.
  std::string packed = zstd_with(text, ZSTD_c_contentSizeFlag, 0);
  const std::string large("\x28\xB5\x2F\xFD\x04\x90", 6);
  EXPECT_TRUE(throws<Error>([&] { unpack_bytes(large + packed.substr(6)); },
                            {"file was packed with a window of more than 128.0 MiB", "--long=31"}));
  lzma_options_lzma options{};
  lzma_lzma_preset(&options, 6);
  options.dict_size = 1U << 30;
  std::array<lzma_filter, 2> filters = {{{.id = LZMA_FILTER_LZMA2, .options = &options},
                                         {.id = LZMA_VLI_UNKNOWN, .options = nullptr}}};
  // The packer would take ten times the dictionary, so the header alone is made with it.
  std::string header(64, '\0');
  lzma_stream_flags flags{};
  flags.check = LZMA_CHECK_CRC32;
  ASSERT_EQ(lzma_stream_header_encode(&flags, reinterpret_cast<std::uint8_t*>(header.data())),
            LZMA_OK);
  lzma_block block{};
  block.check = LZMA_CHECK_CRC32;
  block.compressed_size = LZMA_VLI_UNKNOWN;
  block.uncompressed_size = LZMA_VLI_UNKNOWN;
  block.filters = filters.data();
  ASSERT_EQ(lzma_block_header_size(&block), LZMA_OK);
  ASSERT_EQ(lzma_block_header_encode(
                &block, reinterpret_cast<std::uint8_t*>(header.data()) + LZMA_STREAM_HEADER_SIZE),
            LZMA_OK);
  EXPECT_TRUE(throws<Error>([&] { unpack_bytes(header); },
                            {"file wants 1", "GiB of memory", "the limit is 512.0 MiB", "xz -d"}));
}

TEST(ByteSource, FailuresOfTheDiskAreSentences) {
  MemoryDisk memory;
  memory.put("file", gzip("abc"));
  EXPECT_TRUE(throws<FileError>([&] { unpack(memory, "none"); }, {"cannot open none", "ENOENT"}));
  for (long n = 1;; ++n) {
    FaultyDisk disk(memory, {.at = n, .error = EIO});
    try {
      EXPECT_EQ(unpack(disk, "file"), "abc");
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), EIO);
    }
    FaultyDisk interrupted(memory, {.at = n, .error = EINTR});
    EXPECT_EQ(unpack(interrupted, "file"), "abc");
    if (!disk.struck()) break;
    ASSERT_LT(n, 100);
  }
}

TEST(ByteSource, AFolderIsNoStream) {
  const test::TempFolder folder;
  EXPECT_TRUE(throws<FileError>([&] { unpack(real_file_system(), folder.path()); },
                                {"cannot read", folder.path(), "EISDIR"}));
}

TEST(ByteSource, PipesAndStandardInputAreRead) {
  const test::TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text = sample_text(200000);
  std::ofstream(folder / "packed", std::ios::binary) << xz(text);
  const auto feed = [&] {
    ASSERT_EQ(std::system(say("sleep 0.05 && cat ", folder / "packed", " > ", pipe, " &").c_str()),
              0);
  };
  feed();
  EXPECT_TRUE(unpack(real_file_system(), pipe) == text);

  feed();
  const int kept = ::dup(STDIN_FILENO);
  const int opened = ::open(pipe.c_str(), O_RDONLY);
  ::dup2(opened, STDIN_FILENO);
  {
    const auto source = open_source(real_file_system(), "-");
    EXPECT_EQ(source->name(), "standard input");
    EXPECT_EQ(source->size(), std::nullopt);
    EXPECT_TRUE(read_text(*source, 1 << 20) == text);
  }
  ::dup2(kept, STDIN_FILENO);
  ::close(opened);
  ::close(kept);
}

}  // namespace
}  // namespace norma::io
