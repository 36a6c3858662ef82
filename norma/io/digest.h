// A digest of bytes: XXH3 with 128 bits. It finds accidents (flipped bits, holes, torn writes), not
// forgers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "norma/io/file_system.h"

namespace norma::io {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::string text() const;  // 32 hexadecimal digits
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// Takes bytes in pieces; how they were cut does not matter.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(Bytes bytes);
  Digest digest() const;  // of all bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(Bytes bytes);

}  // namespace norma::io
