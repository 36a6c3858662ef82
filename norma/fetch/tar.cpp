#include "norma/fetch/tar.h"

#include <algorithm>
#include <array>
#include <optional>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma::fetch {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field kName{.at = 0, .size = 100};
constexpr Field kSize{.at = 124, .size = 12};
constexpr Field kChecksum{.at = 148, .size = 8};
constexpr std::size_t kKind = 156;
constexpr Field kMagic{.at = 257, .size = 5};
constexpr Field kPrefix{.at = 345, .size = 155};

using Block = std::array<char, kBlock>;

[[noreturn]] void refuse(const io::ByteSource& archive, std::string_view what) {
  throw Error(say(archive.name(), " is no sound tar archive: ", what, "."));
}

/// A field's text, which ends at a NUL or at the end of the field.
std::string_view text_of(const Block& block, Field field) {
  const std::string_view all(block.data() + field.at, field.size);
  return all.substr(0, std::min(all.find('\0'), all.size()));
}

/// Octal digits between blanks; nothing when there is anything else.
std::optional<std::uint64_t> number_of(const Block& block, Field field) {
  std::string_view digits = text_of(block, field);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return std::nullopt;
  std::uint64_t value = 0;  // at most twelve digits, so it cannot overflow
  for (const char c : digits) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

/// Of the header, its own field counted as blanks.
std::uint64_t checksum_of(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

bool stays_inside(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  while (!name.empty()) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..") return false;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return true;
}

void read_block(io::ByteSource& archive, Block& block) {
  if (io::read_fully(archive, std::as_writable_bytes(std::span(block))) != kBlock) {
    refuse(archive, "it is cut off");
  }
}

/// Takes `size` bytes and what fills their last block; keeps them where there is somewhere to.
void read_contents(io::ByteSource& archive, std::uint64_t size, std::string* kept) {
  Block block{};
  for (; size > 0; size -= std::min<std::uint64_t>(size, kBlock)) {
    read_block(archive, block);
    if (kept != nullptr) kept->append(block.data(), std::min<std::uint64_t>(size, kBlock));
  }
}

}  // namespace

Members read_tar(io::ByteSource& archive, const std::function<bool(std::string_view)>& wants) {
  Members members;
  std::uint64_t total = 0;
  Block header{};
  while (true) {
    read_block(archive, header);
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) break;
    if (number_of(header, kChecksum) != checksum_of(header)) {
      refuse(archive, "the checksum of a header is wrong");
    }
    if (text_of(header, kMagic) != "ustar") refuse(archive, "a header is not that of ustar");
    const std::optional<std::uint64_t> size = number_of(header, kSize);
    if (!size) refuse(archive, "the size of a member is no number");
    const std::string_view prefix = text_of(header, kPrefix);
    const std::string name = say(prefix, prefix.empty() ? "" : "/", text_of(header, kName));
    if (!stays_inside(name)) refuse(archive, say("a member is called \"", name, "\""));

    const bool regular = header[kKind] == '0' || header[kKind] == '\0';
    if (!regular || !wants(name)) {
      read_contents(archive, *size, nullptr);
      continue;
    }
    total += *size;
    if (total > kMostBytes) refuse(archive, "its members are larger than any that we know");
    const auto [place, is_new] = members.try_emplace(name);
    if (!is_new) refuse(archive, say("it holds ", name, " twice"));
    read_contents(archive, *size, &place->second);
  }
  while (archive.read(std::as_writable_bytes(std::span(header))) > 0) {
  }
  return members;
}

}  // namespace norma::fetch
