// libFuzzer target of what a run folder holds: MANIFEST.json and state.json (chosen by the first
// byte). What is accepted must be what we would have written.
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/io/manifest.h"
#include "norma/train/checkpoint.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static norma::fuzz::Counts counts;
  ++counts.inputs;
  if (size == 0) return 0;
  const std::string_view text = norma::fuzz::text_of(data + 1, size - 1);
  try {
    if (data[0] % 2 == 0) {
      const norma::io::Manifest manifest = norma::io::parse_manifest("x", text);
      if (norma::io::parse_manifest("y", text_of(manifest)) != manifest) {
        norma::fuzz::complain("a manifest changed on the way");
      }
    } else if (norma::parse_state("x", text).step < 0) {
      norma::fuzz::complain("a negative step was accepted");
    }
    ++counts.accepted;
  } catch (const norma::Error&) {
    return 0;
  }
  return 0;
}
