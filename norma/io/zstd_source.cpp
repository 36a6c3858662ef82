// zstd, through libzstd.
#include <new>

#include <zstd.h>
#include <zstd_errors.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/input_buffer.h"

namespace norma::io {

namespace {

constexpr int kWindowLog = 27;  // 128 MiB: what zstd --ultra -22 asks for

class ZstdSource final : public BufferedSource {
 public:
  explicit ZstdSource(Input input) : BufferedSource(std::move(input)), stream_(ZSTD_createDCtx()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  std::size_t read(std::span<std::byte> into) override {
    while (!into.empty()) {
      // Between frames the file may end. Within one, bytes may come out although none went in.
      const bool more = input().wait_for(1);
      if (!more && !within_frame_) return 0;
      const Bytes waiting = input().waiting();
      ZSTD_inBuffer from{.src = waiting.data(), .size = waiting.size(), .pos = 0};
      ZSTD_outBuffer to{.dst = into.data(), .size = into.size(), .pos = 0};
      const std::size_t answer = ZSTD_decompressStream(stream_, &to, &from);
      input().take(from.pos);
      if (ZSTD_isError(answer) != 0) refuse(answer);
      within_frame_ = answer != 0;
      if (to.pos > 0) return to.pos;
      if (!more && within_frame_) refuse_cut_off("zstd");
    }
    return 0;
  }

 private:
  [[noreturn]] void refuse(std::size_t answer) {
    switch (ZSTD_getErrorCode(answer)) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_frameParameter_windowTooLarge:
        throw Error(say(name(),
                        " was packed with a window of more than ",
                        human_bytes(static_cast<double>(1U << kWindowLog)),
                        ", which is the limit. Unpack it with zstd -d --long=31 first."));
      default:
        refuse_damaged("zstd", ZSTD_getErrorName(answer));
    }
  }

  ZSTD_DCtx* stream_;
  bool within_frame_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_zstd(Input input) {
  return std::make_unique<ZstdSource>(std::move(input));
}

}  // namespace norma::io
