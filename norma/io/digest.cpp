#include "norma/io/digest.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxHash's own switch
#include <xxhash.h>

namespace norma::io {

struct Hasher::State {
  XXH3_state_t xxh3;
};

std::string Digest::text() const {
  std::string digits;
  for (const std::uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[(half >> shift) & 15];
  }
  return digits;
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_INITSTATE(&state_->xxh3);
  XXH3_128bits_reset(&state_->xxh3);
}
Hasher::~Hasher() = default;

void Hasher::add(Bytes bytes) { XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size()); }

Digest Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return {.high = hash.high64, .low = hash.low64};
}

Digest digest_of(Bytes bytes) {
  Hasher hasher;
  hasher.add(bytes);
  return hasher.digest();
}

}  // namespace norma::io
