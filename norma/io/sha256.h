// SHA-256 (FIPS 180-4): tells forged bytes from published ones, where norma/io/digest.h, which is
// faster, finds accidents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "norma/io/file_system.h"

namespace norma::io {

/// Takes bytes in pieces; how they were cut does not matter.
class Sha256 {
 public:
  void add(Bytes bytes);
  std::string text() const;  // of all bytes so far: 64 hexadecimal digits

 private:
  void mix(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6A09E667,
                                         0xBB67AE85,
                                         0x3C6EF372,
                                         0xA54FF53A,
                                         0x510E527F,
                                         0x9B05688C,
                                         0x1F83D9AB,
                                         0x5BE0CD19};
  std::array<std::byte, 64> rest_{};
  std::uint64_t count_ = 0;
};

std::string sha256_of(std::string_view text);

}  // namespace norma::io
