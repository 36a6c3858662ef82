#include "norma/text/bpe_files.h"

#include <set>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/text/byte_alphabet.h"

namespace norma::text {

namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

bool is_byte_symbol(std::string_view piece) {
  constexpr std::size_t kLongest = 2;  // bytes of UTF-8
  const auto bytes = piece.size() <= kLongest ? unspell(piece) : std::nullopt;
  return bytes && bytes->size() == 1;
}

/// "a b": exactly one space, something on both sides.
std::pair<std::string, std::string> parse_merge(const std::string& where, std::string_view merge) {
  const std::size_t space = merge.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
      merge.find(' ', space + 1) != std::string_view::npos) {
    throw Error(say(where, ": a merge must be two pieces with one space between them."));
  }
  return {std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))};
}

Merges parse_merges(std::string_view file, std::string_view text) {
  Merges merges;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      throw Error(say(file, ": the last line has no end; is the file whole?"));
    }
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (number == 1 && line.starts_with("#version")) continue;
    if (line.empty() && text.empty()) break;
    merges.push_back(parse_merge(say(file, ": line ", number), line));
  }
  return merges;
}

}  // namespace

BpeModel read_merges(std::string_view file, std::string_view text) {
  BpeParts parts;
  parts.merges = parse_merges(file, text);
  parts.vocabulary.reserve(256 + parts.merges.size());
  for (int id = 0; id < 256; ++id) parts.vocabulary.emplace_back(symbol_of_id(id), id);
  std::set<std::string> made;
  const auto known = [&](const std::string& piece) {
    return is_byte_symbol(piece) || made.contains(piece);
  };
  for (std::size_t i = 0; i < parts.merges.size(); ++i) {
    const auto& [left, right] = parts.merges[i];
    if (!known(left) || !known(right)) {
      throw Error(say(file, ": merge ", i + 1, " joins a piece that no merge before it makes."));
    }
    made.insert(left + right);
    parts.vocabulary.emplace_back(left + right, static_cast<std::int64_t>(256 + i));
  }
  parts.specials.emplace_back(kEndOfText, static_cast<std::int64_t>(parts.vocabulary.size()));
  return build_model(file, "bpe", parts);
}

BpeModel read_vocab_and_merges(const NamedText& vocab, const NamedText& merges) {
  BpeParts parts;
  parts.merges = parse_merges(merges.file, merges.text);
  std::set<std::string> made;
  for (const auto& [left, right] : parts.merges) made.insert(left + right);
  const JsonValue json = parse_json(vocab.file, vocab.text);
  if (json.kind != JsonValue::Kind::object) {
    throw Error(say(vocab.file, ": an object of pieces and ids was expected."));
  }
  for (const JsonMember& member : json.members) {
    if (member.value.kind != JsonValue::Kind::integer) {
      throw Error(say(vocab.file, ": an id must be a whole number."));
    }
    const bool ordinary = is_byte_symbol(member.key) || made.contains(member.key);
    auto& list = ordinary ? parts.vocabulary : parts.specials;
    list.emplace_back(member.key, member.value.integer);
  }
  return build_model(vocab.file, "bpe", parts);
}

namespace {

bool is_null(const JsonValue* value) {
  return value == nullptr || value->kind == JsonValue::Kind::null;
}

/// Reads the parts that Norma knows how to do, and refuses files that would need more: ignoring a
/// setting would give other ids than the file's author got.
class TokenizerJson {
 public:
  TokenizerJson(std::string_view file, std::string_view text)
      : file_(file), json_(parse_json(file, text)) {}

  BpeModel read() {
    require_byte_level("pre_tokenizer", true);
    require_byte_level("decoder", true);
    require_byte_level("post_processor", false);
    if (!is_null(json_.find("normalizer"))) refuse("a normalizer, which Norma does not have");
    const JsonValue* model = json_.find("model");
    if (model == nullptr || model->kind != JsonValue::Kind::object) refuse("no model");
    read_model(*model);
    if (const JsonValue* added = json_.find("added_tokens"); !is_null(added)) read_added(*added);
    return build_model(file_, "bpe", parts_);
  }

 private:
  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    throw Error(say(file_, ": ", words..., "."));
  }

  bool flag(const JsonValue& object, std::string_view key, bool otherwise) const {
    const JsonValue* value = object.find(key);
    if (is_null(value)) return otherwise;
    if (value->kind != JsonValue::Kind::boolean) refuse(key, " must be true or false");
    return value->boolean;
  }

  void require_byte_level(std::string_view key, bool needed) const {
    const JsonValue* part = json_.find(key);
    if (is_null(part) && !needed) return;
    const JsonValue* type = is_null(part) ? nullptr : part->find("type");
    if (type == nullptr || type->text != "ByteLevel") {
      refuse("the ", key, " must be of the type ByteLevel, the only one Norma has");
    }
    if (key != "pre_tokenizer") return;
    if (flag(*part, "add_prefix_space", true)) refuse("add_prefix_space must be false");
    if (!flag(*part, "use_regex", true)) refuse("use_regex must be true");
  }

  void read_model(const JsonValue& model) {
    const JsonValue* type = model.find("type");  // absent in files of the first years
    if (!is_null(type) && type->text != "BPE") refuse("a model of a type other than BPE");
    for (const char* key : {"dropout", "unk_token"}) {
      if (!is_null(model.find(key))) refuse(key, " must be null");
    }
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      if (flag(model, key, false)) refuse(key, " must be false");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonValue* mark = model.find(key);
      if (!is_null(mark) && !mark->text.empty()) refuse(key, " must be empty");
    }
    const JsonValue* vocab = model.find("vocab");
    const JsonValue* merges = model.find("merges");
    if (vocab == nullptr || vocab->kind != JsonValue::Kind::object) refuse("no model.vocab");
    if (merges == nullptr || merges->kind != JsonValue::Kind::array) refuse("no model.merges");
    for (const JsonMember& member : vocab->members) {
      if (member.value.kind != JsonValue::Kind::integer) refuse("an id must be a whole number");
      parts_.vocabulary.emplace_back(member.key, member.value.integer);
    }
    for (std::size_t i = 0; i < merges->items.size(); ++i) {
      parts_.merges.push_back(read_merge(say(file_, ": merge ", i + 1), merges->items[i]));
    }
  }

  /// Newer files write ["a", "b"], older ones "a b".
  static std::pair<std::string, std::string> read_merge(const std::string& where,
                                                        const JsonValue& merge) {
    if (merge.kind == JsonValue::Kind::string) return parse_merge(where, merge.text);
    const auto is_piece = [](const JsonValue& v) {
      return v.kind == JsonValue::Kind::string && !v.text.empty() &&
             v.text.find(' ') == std::string::npos;  // the older form could not hold it
    };
    if (merge.items.size() != 2 || !is_piece(merge.items[0]) || !is_piece(merge.items[1])) {
      throw Error(say(where, " must be two pieces without spaces."));
    }
    return {merge.items[0].text, merge.items[1].text};
  }

  void read_added(const JsonValue& added) {
    if (added.kind != JsonValue::Kind::array) refuse("added_tokens must be a list");
    for (const JsonValue& token : added.items) {
      const JsonValue* content = token.find("content");
      const JsonValue* id = token.find("id");
      if (content == nullptr || content->kind != JsonValue::Kind::string || id == nullptr ||
          id->kind != JsonValue::Kind::integer) {
        refuse("an added token must have a content and an id");
      }
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        if (flag(token, key, false)) refuse(key, " of an added token must be false");
      }
      parts_.specials.emplace_back(content->text, id->integer);
    }
  }

  std::string_view file_;
  JsonValue json_;
  BpeParts parts_;
};

}  // namespace

BpeModel read_tokenizer_json(std::string_view file, std::string_view text) {
  return TokenizerJson(file, text).read();
}

}  // namespace norma::text
