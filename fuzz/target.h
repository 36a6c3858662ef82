// What the fuzz targets share. libFuzzer calls LLVMFuzzerTestOneInput; fuzz/replay.cpp calls it
// with stored files instead.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "norma/base/error.h"
#include "norma/io/strict_json.h"

namespace norma::fuzz {

/// A rule was broken: the input is a finding.
[[noreturn]] inline void complain(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

/// Says at the end how many inputs a reader accepted: few would mean that it was hardly tested.
struct Counts {
  long inputs = 0;
  long accepted = 0;
  ~Counts() { std::fprintf(stderr, "accepted %ld of %ld inputs\n", accepted, inputs); }
};

/// Every refusal is a sentence that can be printed and put into JSON.
inline void require_utf8(const Error& error) {
  if (io::first_bad_utf8(error.what()) != std::string_view::npos) {
    complain("a sentence is not UTF-8");
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace norma::fuzz
