// What a safetensors file may hold, for its reader and its writer alike.
#pragma once

#include <cstdint>

namespace norma::io {

inline constexpr std::uint64_t kMaxHeader = 100'000'000;  // bytes; the reference's limit
inline constexpr std::uint64_t kMaxTensors = 1'000'000;
inline constexpr std::uint64_t kMaxName = 1024;  // bytes
inline constexpr std::uint64_t kMaxRank = 16;
inline constexpr std::uint64_t kMaxExtent = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint64_t kMaxMetadata = 1 << 20;  // bytes of keys and values
inline constexpr std::uint64_t kMaxMetadataEntries = 10'000;

}  // namespace norma::io
