// libFuzzer target of the tokenizer files. The first byte says which: tokenizer.json, merges alone,
// or vocab.json and merges.txt with a zero byte between them. What is accepted must be written and
// read back the same, and must tokenize without loss. The mutator makes vocabularies in all three
// forms and changes single tokens or lines of them.
#include <algorithm>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/strict_json.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/byte_alphabet.h"

namespace norma::text {
namespace {

using fuzz::complain;
using fuzz::one_in;
using fuzz::one_of;
using fuzz::Random;

enum class Kind : std::uint8_t { json, merges, vocab_and_merges };
Kind kind_of(std::uint8_t first) { return static_cast<Kind>(first % 3); }

BpeModel read(Kind kind, std::string_view text) {
  if (kind == Kind::json) return read_tokenizer_json("x", text);
  if (kind == Kind::merges) return read_merges("x", text);
  const std::size_t middle = std::min(text.find('\0'), text.size());
  const std::string_view merges = text.substr(std::min(middle + 1, text.size()));
  return read_vocab_and_merges({"x", text.substr(0, middle)}, {"y", merges});
}

bool same(const BpeModel& a, const BpeModel& b) {
  return a.pieces == b.pieces && a.merges == b.merges && a.specials == b.specials;
}

/// Written in the form it had and read again.
BpeModel read_back(Kind kind, const BpeModel& model) {
  if (kind == Kind::json) return read_tokenizer_json("again", tokenizer_json(model));
  if (kind == Kind::merges) return read_merges("again", merges_txt(model));
  return read_vocab_and_merges({"x", vocab_json(model)}, {"y", merges_txt(model)});
}

/// What holds of every model that a reader accepts.
void check_accepted(Kind kind, BpeModel model, std::string_view text) {
  if (!same(read_back(kind, model), model)) complain("a tokenizer changed on the way");
  const BpeTokenizer tokenizer(std::move(model));
  for (const Specials specials : {Specials::as_text, Specials::recognized}) {
    std::vector<Id> ids;
    tokenizer.encode_into(text, specials, ids);
    if (tokenizer.decode(ids) != text) complain("a text changed on the way");
  }
}

std::vector<std::string> byte_symbols() {
  std::vector<std::string> symbols;
  symbols.reserve(256);
  for (int id = 0; id < 256; ++id) symbols.push_back(symbol_of_id(id));
  return symbols;
}

/// A vocabulary as files spell it.
struct Draft {
  std::vector<std::string> pieces;  // by id
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> specials;  // their ids follow those of the pieces
};

Draft some_draft(Random& random, bool with_bytes) {
  Draft draft;
  if (with_bytes) draft.pieces = byte_symbols();
  std::vector<std::string> known = {"a", "b", "t", "h", "e", "Ġ", "Ċ", "Ã"};
  for (auto count = random() % 10; count > 0; --count) {
    const std::string left = one_of(known, random);
    const std::string right = one_of(known, random);
    const std::string made = left + right;
    if (std::find(known.begin(), known.end(), made) != known.end()) continue;
    known.push_back(made);
    draft.pieces.push_back(made);
    draft.merges.emplace_back(left, right);
  }
  if (one_in(random, 4)) std::shuffle(draft.pieces.begin(), draft.pieces.end(), random);
  for (auto count = random() % 3; count > 0; --count) {
    draft.specials.push_back(say("<|", count, fuzz::some_text(random), ">"));
  }
  return draft;
}

std::string vocab_text(const Draft& draft, bool with_specials) {
  std::string text = "{";
  std::size_t id = 0;
  const auto add = [&](const std::string& piece) {
    text += say(id == 0 ? "" : ",", io::json_string(piece), ":", id);
    ++id;
  };
  for (const std::string& piece : draft.pieces) add(piece);
  if (with_specials) {
    for (const std::string& special : draft.specials) add(special);
  }
  return text + "}";
}

std::string merges_text(const Draft& draft, bool with_head) {
  std::string text = with_head ? "#version: 0.2\n" : "";
  for (const auto& [left, right] : draft.merges) text += say(left, " ", right, "\n");
  return text;
}

std::string json_text(const Draft& draft, Random& random) {
  const bool pairs = one_in(random, 2);
  const bool listed = one_in(random, 2);
  std::string merges;
  for (const auto& [left, right] : draft.merges) {
    merges += say(merges.empty() ? "" : ",",
                  pairs ? "[" : "",
                  pairs ? say(io::json_string(left), ",", io::json_string(right))
                        : io::json_string(say(left, " ", right)),
                  pairs ? "]" : "");
  }
  std::string added;
  for (std::size_t i = 0; i < draft.specials.size(); ++i) {
    added += say(added.empty() ? "" : ",",
                 "{\"id\":",
                 draft.pieces.size() + i,
                 ",\"content\":",
                 io::json_string(draft.specials[i]),
                 "}");
  }
  return say(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)",
             R"("decoder":{"type":"ByteLevel"},"added_tokens":[)",
             added,
             R"(],"model":{"vocab":)",
             vocab_text(draft, listed),
             R"(,"merges":[)",
             merges,
             "]}}");
}

std::string sound_input(Random& random) {
  // Mostly merges alone: the other two forms name all 256 bytes and take their time.
  const Kind kind = one_in(random, 4) ? kind_of(static_cast<std::uint8_t>(random())) : Kind::merges;
  const Draft draft = some_draft(random, kind != Kind::merges);
  const bool head = one_in(random, 2);
  const std::string file = kind == Kind::json ? json_text(draft, random)
                           : kind == Kind::merges
                               ? merges_text(draft, head)
                               : say(vocab_text(draft, true), '\0', merges_text(draft, head));
  return static_cast<char>(kind) + file;
}

/// Doubles, drops or mends one line of merges.
void change_line(std::string& text, Random& random) {
  const std::size_t at = text.empty() ? 0 : random() % text.size();
  const std::size_t begin = std::min(text.rfind('\n', at) + 1, text.size());
  const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
  const std::string line = text.substr(begin, end - begin);
  constexpr std::string_view kLines[] = {
      "a b\n", "ab c\n", "Ġ t\n", "a\n", "\n", "a  b\n", "α a\n"};
  const auto choice = random() % 4;
  if (choice == 0) text.insert(begin, line);
  if (choice == 1) text.erase(begin, end - begin);
  if (choice >= 2) text.insert(begin, one_of(kLines, random));
}

}  // namespace
}  // namespace norma::text

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace norma::text;  // NOLINT(google-build-using-namespace)
  static norma::fuzz::Counts counts;
  ++counts.inputs;
  if (size == 0) return 0;
  BpeModel model;
  try {
    model = read(kind_of(data[0]), norma::fuzz::text_of(data + 1, size - 1));
  } catch (const norma::Error&) {
    return 0;
  }
  ++counts.accepted;
  try {
    const std::string_view text = norma::fuzz::text_of(data, std::min<std::size_t>(size, 64));
    check_accepted(kind_of(data[0]), std::move(model), text);
  } catch (const norma::Error& error) {
    complain(error.what());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t most,
                                               unsigned seed) {
  using namespace norma::text;  // NOLINT(google-build-using-namespace)
  namespace fuzz = norma::fuzz;
  Random random(seed);
  const auto choice = random() % 8;
  if (choice == 0) return LLVMFuzzerMutate(data, size, most);
  if (choice <= 3 || size < 2) return fuzz::hand_over(sound_input(random), data, most);
  std::string text(fuzz::text_of(data + 1, size - 1));
  if (kind_of(data[0]) == Kind::json ||
      (kind_of(data[0]) == Kind::vocab_and_merges && one_in(random, 2))) {
    fuzz::change_token(text, random);
  } else {
    change_line(text, random);
  }
  return fuzz::hand_over(static_cast<char>(data[0]) + text, data, most);
}
