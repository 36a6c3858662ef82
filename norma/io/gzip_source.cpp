// gzip, through zlib. A file may hold several members one after the other and, as tapes leave them,
// zeros after the last.
#include <algorithm>
#include <new>

#include <zlib.h>

#include "norma/io/input_buffer.h"

namespace norma::io {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
constexpr int kGzipWindow = 15 + 16;                       // the largest window; a gzip header

class GzipSource final : public BufferedSource {
 public:
  explicit GzipSource(Input input) : BufferedSource(std::move(input)) {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> into) override {
    into = into.first(std::min(into.size(), kMostAtOnce));
    while (!into.empty() && !ended_) {
      if (between_members_ && !another_member()) break;
      if (const std::size_t count = inflate_into(into)) return count;
    }
    return 0;
  }

 private:
  bool another_member() {
    bool padded = false;
    while (input().wait_for(1) && input().waiting().front() == std::byte{0}) {
      padded = true;
      input().take(1);
    }
    if (input().waiting().empty()) {
      ended_ = true;
      return false;
    }
    if (padded) refuse_damaged("gzip", "something follows the zeros after the last member");
    inflateReset(&stream_);
    between_members_ = false;
    return true;
  }

  std::size_t inflate_into(std::span<std::byte> into) {
    if (!input().wait_for(1)) refuse_cut_off("gzip");
    const Bytes waiting = input().waiting();
    // zlib reads through a pointer that is not const in old versions, and writes nothing there.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(waiting.data()));
    stream_.avail_in = static_cast<uInt>(waiting.size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    const int answer = inflate(&stream_, Z_NO_FLUSH);
    input().take(waiting.size() - stream_.avail_in);
    if (answer == Z_MEM_ERROR) throw std::bad_alloc();
    if (answer == Z_STREAM_END) {
      between_members_ = true;
    } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
      refuse_damaged("gzip", stream_.msg != nullptr ? stream_.msg : "unknown fault");
    }
    return into.size() - stream_.avail_out;
  }

  z_stream stream_{};
  bool between_members_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_gzip(Input input) {
  return std::make_unique<GzipSource>(std::move(input));
}

}  // namespace norma::io
