#include "norma/fetch/demo_corpus.h"

#include <algorithm>
#include <iterator>

namespace norma::fetch {

namespace {

constexpr std::string_view kBetweenDocuments = "<|endoftext|>\n";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string without_control_characters(std::string_view text) {
  std::string kept;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7F';
  });
  return kept;
}

void begin_document(std::string& corpus) {
  if (!corpus.empty()) corpus += kBetweenDocuments;
}

void add_line(std::string& corpus, std::string_view line) {
  corpus += trimmed(line);
  corpus += '\n';
}

/// Puts the hard-wrapped lines of a book together.
class Unwrapper {
 public:
  explicit Unwrapper(std::string& corpus) : corpus_(corpus) {}

  void add(std::string_view line) {
    if (line.starts_with("CHAPTER ") && paragraph_.empty()) {
      begin_document(corpus_);
      first_ = true;
    }
    if (trimmed(line).empty()) {
      finish_paragraph();
      return;
    }
    const bool verse = line.front() == ' ';
    if (!paragraph_.empty()) paragraph_ += verse ? '\n' : ' ';
    paragraph_ += trimmed(line);
  }
  void finish_paragraph() {
    if (paragraph_.empty()) return;
    if (!first_) corpus_ += '\n';
    add_line(corpus_, paragraph_);
    paragraph_.clear();
    first_ = false;
  }

 private:
  std::string& corpus_;
  std::string paragraph_;
  bool first_ = true;  // of its document
};

}  // namespace

std::string demo_corpus(const Members& addresses, std::string_view moby_dick) {
  std::string corpus;
  for (const auto& [name, text] : addresses) {
    begin_document(corpus);
    add_line(corpus, without_control_characters(text));
  }
  Unwrapper book(corpus);
  while (!moby_dick.empty()) {
    const std::size_t end = std::min(moby_dick.find('\n'), moby_dick.size());
    book.add(without_control_characters(moby_dick.substr(0, end)));
    moby_dick.remove_prefix(std::min(end + 1, moby_dick.size()));
  }
  book.finish_paragraph();
  return corpus;
}

}  // namespace norma::fetch
