// An algorithm of cuBLASLt as text; the library says that its bytes may be kept for the same
// version of it.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

#include <cublasLt.h>

namespace norma::kernels {

inline std::string hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
    text += digits;
  }
  return text;
}
/// False for a text that is none.
inline bool read_hex(const std::string& text, cublasLtMatmulAlgo_t& algorithm) {
  constexpr std::size_t kDigits = 16;
  if (text.size() != std::size(algorithm.data) * kDigits) return false;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) {
    const char* from = text.data() + i * kDigits;
    const auto read = std::from_chars(from, from + kDigits, algorithm.data[i], 16);
    if (read.ptr != from + kDigits) return false;
  }
  return true;
}

}  // namespace norma::kernels
