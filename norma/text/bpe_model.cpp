#include "norma/text/bpe_model.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/digest.h"
#include "norma/text/byte_alphabet.h"
#include "norma/text/words.h"

namespace norma::text {

namespace {

/// Long or binary pieces must not flood the terminal.
std::string shown(std::string_view piece) {
  constexpr std::size_t kMost = 40;
  std::string text = "\"";
  for (const char c : piece.substr(0, kMost)) text += c >= 0 && c < ' ' ? '?' : c;
  return text + (piece.size() > kMost ? "…\"" : "\"");
}

class Builder {
 public:
  Builder(std::string_view file, std::string name, const BpeParts& parts)
      : file_(file), parts_(parts) {
    model_.name = std::move(name);
  }

  BpeModel build() {
    count_ids();
    place_pieces();
    place_specials();
    require_every_id();
    require_every_byte();
    place_merges();
    return std::move(model_);
  }

 private:
  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    throw Error(say(file_, ": ", words..., "."));
  }

  /// A special token may also stand in the vocabulary, under its own text.
  void count_ids() {
    ids_.reserve(parts_.vocabulary.size());
    for (const auto& [piece, id] : parts_.vocabulary) {
      if (!ids_.emplace(piece, id).second) refuse("the piece ", shown(piece), " comes twice");
    }
    std::size_t count = ids_.size();
    for (const auto& [text, id] : parts_.specials) {
      const auto also = ids_.find(text);
      if (also == ids_.end()) {
        ++count;
      } else if (also->second != id) {
        refuse("the special token ", shown(text), " has the ids ", also->second, " and ", id);
      }
    }
    if (count > static_cast<std::size_t>(kMostIds)) {
      refuse(count, " ids; at most ", kMostIds, " are read");
    }
    model_.pieces.resize(count);
    taken_.resize(count, false);
  }

  std::string& claim(std::string_view piece, std::int64_t id) {
    if (id < 0 || id >= static_cast<std::int64_t>(taken_.size())) {
      refuse("the piece ",
             shown(piece),
             " has the id ",
             id,
             ", but the ",
             taken_.size(),
             " pieces must have the ids 0 to ",
             taken_.size() - 1);
    }
    if (taken_[static_cast<std::size_t>(id)]) refuse("the id ", id, " is given twice");
    taken_[static_cast<std::size_t>(id)] = true;
    return model_.pieces[static_cast<std::size_t>(id)];
  }

  void place_specials() {
    for (const auto& [text, id] : parts_.specials) {
      if (text.empty()) refuse("a special token is empty");
      for (std::size_t i = 1; i < text.size(); ++i) {
        if (is_cut(text[i - 1], text[i])) {
          refuse("the special token ", shown(text), " has white space behind another character");
        }
      }
      claim(text, id) = text;
      model_.specials.push_back({text, static_cast<Id>(id)});
    }
    std::sort(model_.specials.begin(),
              model_.specials.end(),
              [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
  }

  void place_pieces() {
    std::set<std::string_view> special_texts;
    for (const auto& special : parts_.specials) {
      if (!special_texts.insert(special.first).second) {
        refuse("the special token ", shown(special.first), " comes twice");
      }
    }
    for (const auto& [piece, id] : parts_.vocabulary) {
      if (special_texts.contains(piece)) continue;
      const std::optional<std::string> bytes = unspell(piece);
      if (piece.empty()) refuse("a piece is empty");
      if (!bytes) refuse("the piece ", shown(piece), " has a character that stands for no byte");
      claim(piece, id) = *bytes;
    }
  }

  void require_every_id() const {
    const auto hole = std::find(taken_.begin(), taken_.end(), false);
    if (hole != taken_.end()) refuse("no piece has the id ", hole - taken_.begin());
  }

  void require_every_byte() const {
    for (int id = 0; id < 256; ++id) {
      const std::string& symbol = symbol_of_id(id);
      const auto hit = ids_.find(symbol);
      if (hit == ids_.end()) refuse("the byte ", shown(symbol), " has no id");
      // A special token stands for its text, so one that is spelled like a byte takes its place.
      if (bytes_of(hit->second) != std::string(1, static_cast<char>(byte_of_id(id)))) {
        refuse("the byte ", shown(symbol), " has the id of a special token");
      }
    }
  }

  const std::string& bytes_of(std::int64_t id) const {
    return model_.pieces[static_cast<std::size_t>(id)];
  }

  Id id_of(const std::string& piece, std::size_t merge) const {
    const auto hit = ids_.find(piece);
    if (hit == ids_.end()) {
      refuse("merge ", merge + 1, " needs ", shown(piece), ", which is not in the vocabulary");
    }
    return static_cast<Id>(hit->second);
  }

  void place_merges() {
    std::set<std::pair<Id, Id>> seen;
    model_.merges.reserve(parts_.merges.size());
    for (std::size_t i = 0; i < parts_.merges.size(); ++i) {
      const auto& [left, right] = parts_.merges[i];
      const Merge merge = {id_of(left, i), id_of(right, i), id_of(left + right, i)};
      if (bytes_of(merge.result) != bytes_of(merge.left) + bytes_of(merge.right)) {
        refuse("merge ", i + 1, " has to do with a special token, which stands for other bytes");
      }
      if (!seen.emplace(merge.left, merge.right).second) {
        refuse("merge ", i + 1, " joins ", shown(left), " and ", shown(right), " a second time");
      }
      model_.merges.push_back(merge);
    }
  }

  std::string_view file_;
  const BpeParts& parts_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::vector<bool> taken_;
  BpeModel model_;
};

}  // namespace

BpeModel build_model(std::string_view file, std::string name, const BpeParts& parts) {
  return Builder(file, std::move(name), parts).build();
}

BpeModel byte_model() {
  BpeModel model;
  model.name = "byte";
  for (int byte = 0; byte < 256; ++byte) model.pieces.emplace_back(1, static_cast<char>(byte));
  return model;
}

std::string fingerprint_of(const BpeModel& model) {
  io::Hasher hasher;
  // Every part goes in with its length, so that moving a boundary changes the digest.
  const auto add = [&](std::string_view part) {
    const std::uint64_t size = part.size();
    hasher.add(std::as_bytes(std::span(&size, 1)));
    hasher.add(std::as_bytes(std::span(part)));
  };
  const auto add_number = [&](std::uint64_t number) {
    hasher.add(std::as_bytes(std::span(&number, 1)));
  };
  add("byte-pair encoding, GPT-2's words");
  add_number(model.pieces.size());
  for (const std::string& piece : model.pieces) add(piece);
  add_number(model.merges.size());
  for (const Merge& merge : model.merges) {
    add_number((static_cast<std::uint64_t>(merge.left) << 32) |
               static_cast<std::uint32_t>(merge.right));
  }
  add_number(model.specials.size());
  for (const SpecialToken& special : model.specials) {
    add_number(static_cast<std::uint64_t>(special.id));
  }
  constexpr std::size_t kDigits = 16;
  return hasher.digest().text().substr(0, kDigits);
}

}  // namespace norma::text
