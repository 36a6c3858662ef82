#include "norma/io/stored_type.h"

#include <cstring>

namespace norma::io {

namespace {

constexpr StoredType kTypes[] = {
    {"BOOL", 8, 1},    {"F4", 4, 1},          {"F6_E2M3", 6, 1},     {"F6_E3M2", 6, 1},
    {"U8", 8, 1},      {"I8", 8, 1},          {"F8_E5M2", 8, 1},     {"F8_E4M3", 8, 1},
    {"F8_E8M0", 8, 1}, {"F8_E4M3FNUZ", 8, 1}, {"F8_E5M2FNUZ", 8, 1}, {"I16", 16, 2},
    {"U16", 16, 2},    {"F16", 16, 2},        {"BF16", 16, 2},       {"I32", 32, 4},
    {"U32", 32, 4},    {"F32", 32, 4},        {"C64", 64, 8},        {"F64", 64, 8},
    {"I64", 64, 8},    {"U64", 64, 8},
};

// A value is not finite when all bits of its exponent are set.
template <class Word>
std::uint64_t count_full_exponents(Bytes values, Word exponent) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at + sizeof(Word) <= values.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, values.data() + at, sizeof(Word));
    count += (word & exponent) == exponent ? 1 : 0;
  }
  return count;
}

}  // namespace

const StoredType* find_stored_type(std::string_view word) {
  for (const StoredType& type : kTypes) {
    if (type.word == word) return &type;
  }
  return nullptr;
}

std::uint64_t count_non_finite(const StoredType& type, Bytes values) {
  if (type.word == "F64") return count_full_exponents(values, std::uint64_t{0x7ff} << 52);
  if (type.word == "F32") return count_full_exponents(values, std::uint32_t{0x7f800000});
  if (type.word == "BF16") return count_full_exponents(values, std::uint16_t{0x7f80});
  if (type.word == "F16") return count_full_exponents(values, std::uint16_t{0x7c00});
  return 0;
}

}  // namespace norma::io
