// What the mutators share. Changing bytes alone hardly ever gives a file that a strict reader
// accepts, so each target makes sound files and changes single words of them.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

// The names of these two are libFuzzer's.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed);

namespace norma::fuzz {

using Random = std::minstd_rand;

inline bool one_in(Random& random, unsigned many) { return random() % many == 0; }

template <class List>
const auto& one_of(const List& list, Random& random) {
  return *(std::begin(list) + static_cast<std::ptrdiff_t>(random() % std::size(list)));
}

/// Replaces, removes, doubles or inserts one token of a JSON text: a string, a number or a mark.
void change_token(std::string& json, Random& random);

/// The same for sealed texts (norma/io/seal.h). Most are sealed again, so that the checks behind
/// the digest are reached.
void change_sealed(std::string& json, Random& random);

/// A short text with letters, escapes and characters of two and four bytes.
std::string some_text(Random& random);

/// Hands a text to libFuzzer, cut to the room there is.
std::size_t hand_over(std::string_view text, std::uint8_t* data, std::size_t most);

}  // namespace norma::fuzz
