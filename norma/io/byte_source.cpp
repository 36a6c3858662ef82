#include "norma/io/byte_source.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/input_buffer.h"

namespace norma::io {

namespace {

class PlainSource final : public BufferedSource {
 public:
  using BufferedSource::BufferedSource;
  std::size_t read(std::span<std::byte> into) override {
    if (into.empty() || !input().wait_for(1)) return 0;
    const std::size_t count = std::min(into.size(), input().waiting().size());
    std::memcpy(into.data(), input().waiting().data(), count);
    input().take(count);
    return count;
  }
};

bool begins_with(InputBuffer& input, std::initializer_list<int> magic) {
  if (!input.wait_for(magic.size())) return false;
  return std::equal(
      magic.begin(), magic.end(), input.waiting().begin(), [](int want, std::byte got) {
        return std::byte{static_cast<unsigned char>(want)} == got;
      });
}

/// A frame, or one of the frames with notes of its own that parallel packers put first.
bool begins_as_zstd(InputBuffer& input) {
  if (begins_with(input, {0x28, 0xB5, 0x2F, 0xFD})) return true;
  for (int kind = 0x50; kind <= 0x5F; ++kind) {
    if (begins_with(input, {kind, 0x2A, 0x4D, 0x18})) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<ByteSource> open_source(FileSystem& system, const std::string& path) {
  auto input = std::make_unique<InputBuffer>(system, path);
  if (begins_with(*input, {0x1F, 0x8B})) return open_gzip(std::move(input));
  if (begins_with(*input, {0xFD, '7', 'z', 'X', 'Z', 0})) return open_xz(std::move(input));
  if (begins_as_zstd(*input)) return open_zstd(std::move(input));
  return std::make_unique<PlainSource>(std::move(input));
}

std::size_t read_fully(ByteSource& source, std::span<std::byte> into) {
  std::size_t count = 0;
  while (count < into.size()) {
    const std::size_t got = source.read(into.subspan(count));
    if (got == 0) break;
    count += got;
  }
  return count;
}

std::string read_text(ByteSource& source, std::uint64_t limit) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::string all;
  while (true) {
    const std::size_t before = all.size();
    all.resize(before + kPiece);
    const std::size_t got =
        read_fully(source, std::as_writable_bytes(std::span(all).subspan(before)));
    all.resize(before + got);
    if (all.size() > limit) {
      throw Error(
          say(source.name(), " holds more than ", limit, " bytes, which is the limit here."));
    }
    if (got < kPiece) return all;
  }
}

}  // namespace norma::io
