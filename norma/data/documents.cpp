#include "norma/data/documents.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/io/strict_json.h"
#include "norma/text/words.h"

namespace norma {

namespace {

constexpr std::size_t kChunk = 1 << 20;
constexpr std::size_t kLongestStretch = std::size_t{16} << 20;  // without a place to cut
constexpr std::size_t kLongestLine = std::size_t{256} << 20;    // of JSONL

/// Appends the next chunk, of a fixed size: where text is cut must not depend on how it arrives.
bool append_chunk(io::ByteSource& source, std::string& into) {
  const std::size_t before = into.size();
  into.resize(before + kChunk);
  const std::size_t got =
      io::read_fully(source, std::as_writable_bytes(std::span(into)).subspan(before));
  into.resize(before + got);
  return got == kChunk;
}

std::string_view without_return(std::string_view line) {
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

class TextReader {
 public:
  TextReader(io::ByteSource& source, std::string_view separator, const TakePiece& take)
      : source_(source), separator_(separator), take_(take) {}

  void read() {
    bool more = true;
    while (more) {
      more = append_chunk(source_, text_);
      end_documents();
      if (more) give_what_is_sure();
    }
    const bool marked = is_separator(std::string_view(text_).substr(line_));
    take_(std::string_view(text_).substr(0, marked ? line_ : text_.size()), true);
  }

 private:
  bool is_separator(std::string_view line) const {
    return !cut_line_ && !separator_.empty() && without_return(line) == separator_;
  }

  /// Looks at the lines that have come to their end.
  void end_documents() {
    std::size_t begin = 0;  // of the document
    for (std::size_t end = text_.find('\n', seen_); end != std::string::npos;
         end = text_.find('\n', end + 1)) {
      if (is_separator(std::string_view(text_).substr(line_, end - line_))) {
        take_(std::string_view(text_).substr(begin, line_ - begin), true);
        begin = end + 1;
      }
      line_ = end + 1;
      cut_line_ = false;
    }
    text_.erase(0, begin);
    line_ -= begin;
    seen_ = text_.size();
  }

  /// A line without an end yet may still become a separator while it is short.
  void give_what_is_sure() {
    const bool settled = text_.size() - line_ > separator_.size() + 1;
    const std::size_t sure = settled ? text_.size() : line_;
    std::size_t cut = text::last_cut(std::string_view(text_).substr(0, sure));
    if (cut == 0 && sure >= kLongestStretch) cut = sure;
    if (cut == 0) return;
    take_(std::string_view(text_).substr(0, cut), false);
    text_.erase(0, cut);
    cut_line_ = cut_line_ || cut > line_;
    line_ = cut > line_ ? 0 : line_ - cut;
    seen_ = text_.size();
  }

  io::ByteSource& source_;
  std::string_view separator_;
  const TakePiece& take_;
  std::string text_;       // of the document, not yet given
  std::size_t line_ = 0;   // where its last line begins
  std::size_t seen_ = 0;   // up to here there is no end of a line behind line_
  bool cut_line_ = false;  // its beginning was given away: what is left is no separator
};

std::string known_fields(const JsonValue& line) {
  std::string names;
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < std::min(kMost, line.members.size()); ++i) {
    names += say(i == 0 ? "" : ", ", io::json_string_start(line.members[i].key));
  }
  return names.empty() ? "nothing" : names;
}

void take_line(const std::string& where,
               std::string_view line,
               std::string_view field,
               const TakePiece& take) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const JsonValue object = parse_json(where, line);
  const JsonValue* value = object.find(field);
  if (value == nullptr || value->kind != JsonValue::Kind::string) {
    throw Error(say(where,
                    " has no text in the field ",
                    io::json_string_start(field),
                    "; it has ",
                    known_fields(object),
                    ". Say --field NAME."));
  }
  take(value->text, true);
}

}  // namespace

void read_text_documents(io::ByteSource& source,
                         std::string_view separator,
                         const TakePiece& take) {
  TextReader(source, separator, take).read();
}

void read_jsonl_documents(io::ByteSource& source, std::string_view field, const TakePiece& take) {
  std::string text;
  std::size_t number = 0;
  std::size_t seen = 0;
  bool more = true;
  const auto where = [&] { return say(source.name(), ": line ", number); };
  while (more) {
    more = append_chunk(source, text);
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n', seen); end != std::string::npos;
         end = text.find('\n', begin)) {
      ++number;
      take_line(where(), std::string_view(text).substr(begin, end - begin), field, take);
      begin = end + 1;
    }
    text.erase(0, begin);
    seen = text.size();
    if (text.size() > kLongestLine) {
      ++number;
      throw Error(say(where(), " has more than ", kLongestLine, " bytes."));
    }
  }
  ++number;
  take_line(where(), text, field, take);
}

}  // namespace norma
