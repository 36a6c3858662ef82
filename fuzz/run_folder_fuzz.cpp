// libFuzzer target of what a run folder holds: MANIFEST.json and state.json (chosen by the first
// byte). What is accepted must be what we would have written.
#include "fuzz/mutate.h"
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/manifest.h"
#include "norma/io/strict_json.h"
#include "norma/train/checkpoint.h"

namespace norma {
namespace {

using fuzz::complain;
using fuzz::one_in;
using fuzz::Random;

bool is_manifest(std::uint8_t first) { return first % 2 == 0; }

std::string some_manifest(Random& random) {
  io::Manifest manifest;
  manifest.step = random() % 3 == 0 ? random() : random() % 5;
  for (auto count = random() % 4; count > 0; --count) {
    manifest.facts[fuzz::some_text(random)] = fuzz::some_text(random);
  }
  for (auto count = random() % 4; count > 0; --count) {
    const std::string name = one_in(random, 6) ? fuzz::some_text(random) : say("f", count);
    manifest.files[name] = {.bytes = random() % 1000, .digest = fuzz::some_text(random)};
  }
  return text_of(manifest);
}

std::string some_state(Random& random) {
  std::string text = say("{\"step\": ", random() % 100000);
  if (one_in(random, 2)) text += say(", \"elapsed_ms\": ", random());
  if (one_in(random, 2)) text += say(", \"data\": ", io::json_string(fuzz::some_text(random)));
  return text + "}\n";
}

}  // namespace
}  // namespace norma

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  static fuzz::Counts counts;
  ++counts.inputs;
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  try {
    if (is_manifest(data[0])) {
      const io::Manifest manifest = io::parse_manifest("x", text);
      if (text_of(manifest) != text) complain("a manifest has a second form");
    } else {
      const RunState state = parse_state("x", text);
      if (state.step < 0) complain("a negative step was accepted");
    }
    ++counts.accepted;
  } catch (const Error& error) {
    fuzz::require_utf8(error);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma;  // NOLINT(google-build-using-namespace)
  Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0) return LLVMFuzzerMutate(data, size, most);
  if (choice <= 3 || size < 2) {
    const bool manifest = one_in(random, 2);
    const std::string text = manifest ? some_manifest(random) : some_state(random);
    return fuzz::hand_over((manifest ? '0' : '1') + text, data, most);
  }
  std::string text(fuzz::text_of(data + 1, size - 1));
  for (auto changes = 1 + random() % 2; changes > 0; --changes) {
    if (is_manifest(data[0])) {
      fuzz::change_sealed(text, random);
    } else {
      fuzz::change_token(text, random);
    }
  }
  return fuzz::hand_over(static_cast<char>(data[0]) + text, data, most);
}
