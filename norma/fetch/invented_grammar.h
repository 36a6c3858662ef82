// The words and the turns of phrase of norma/fetch/invented_text.h.
#pragma once

#include <string_view>

namespace norma::fetch {

/// What may stand for {key} in a phrase. Alternatives are separated by '|' and may hold other keys.
struct GrammarRule {
  std::string_view key;
  std::string_view alternatives;
};

/// The alternatives of a key of the grammar; empty when it has none. Besides these a phrase may use
/// {hero}, {he}, {him}, {his}, {trade}, {work}, {town}, {pet}, {petname} and the same of the friend
/// with an f before them, {thing}, {box} and {season} of the story, {n1}, {n2} and {sum} for
/// numbers, and {does}: a clause whose verb agrees with its subject. {Key} begins with a capital,
/// {a key} with the right article.
std::string_view alternatives_of(std::string_view key);

}  // namespace norma::fetch
