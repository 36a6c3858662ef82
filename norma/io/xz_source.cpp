// xz, through liblzma.
#include <new>
#include <string>

#include <lzma.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/input_buffer.h"

namespace norma::io {

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{512} << 20;

class XzSource final : public BufferedSource {
 public:
  explicit XzSource(Input input) : BufferedSource(std::move(input)) {
    if (lzma_stream_decoder(&stream_, kMemoryLimit, LZMA_CONCATENATED) != LZMA_OK) {
      throw std::bad_alloc();
    }
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  std::size_t read(std::span<std::byte> into) override {
    while (!into.empty() && !ended_) {
      const bool more = input().wait_for(1);
      const Bytes waiting = input().waiting();
      stream_.next_in = reinterpret_cast<const std::uint8_t*>(waiting.data());
      stream_.avail_in = waiting.size();
      stream_.next_out = reinterpret_cast<std::uint8_t*>(into.data());
      stream_.avail_out = into.size();
      const lzma_ret answer = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
      input().take(waiting.size() - stream_.avail_in);
      ended_ = answer == LZMA_STREAM_END;
      if (answer != LZMA_OK && !ended_) refuse(answer);
      if (const std::size_t count = into.size() - stream_.avail_out) return count;
    }
    return 0;
  }

 private:
  [[noreturn]] void refuse(lzma_ret answer) {
    switch (answer) {
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_BUF_ERROR:
        refuse_cut_off("xz");
      case LZMA_MEMLIMIT_ERROR:
        throw Error(say(name(),
                        " wants ",
                        human_bytes(static_cast<double>(lzma_memusage(&stream_))),
                        " of memory for unpacking; the limit is ",
                        human_bytes(static_cast<double>(kMemoryLimit)),
                        ". Unpack it with xz -d first."));
      case LZMA_OPTIONS_ERROR:
        refuse_damaged("xz", "it asks for a method that liblzma does not know");
      case LZMA_FORMAT_ERROR:
        refuse_damaged("xz", "its header is wrong");
      default:
        refuse_damaged("xz", "a checksum or a block is wrong");
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_xz(Input input) {
  return std::make_unique<XzSource>(std::move(input));
}

}  // namespace norma::io
