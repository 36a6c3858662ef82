#include "norma/fetch/invented_text.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"
#include "norma/fetch/invented_grammar.h"

namespace norma::fetch {

namespace {

constexpr std::string_view kBetweenStories = "<|endoftext|>\n";

/// Draws in order from one stream; integers only, so that every machine draws the same.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) : key_{.seed = seed, .stream = stream} {}
  std::size_t below(std::size_t sides) {
    return static_cast<std::size_t>((std::uint64_t{random_word(key_, next_++)} * sides) >> 32);
  }
  std::size_t between(std::size_t least, std::size_t most) {
    return least + below(most - least + 1);
  }

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

std::vector<std::string_view> split(std::string_view alternatives) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t bar = alternatives.find('|');
    parts.push_back(alternatives.substr(0, bar));
    if (bar == std::string_view::npos) return parts;
    alternatives.remove_prefix(bar + 1);
  }
}

std::string capitalized(std::string text) {
  for (char& c : text) {
    if (c == '"') continue;  // the first letter of what is said
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    break;
  }
  return text;
}

std::string number_word(std::size_t n) {
  constexpr std::array<std::string_view, 20> kSmall = {
      "no",       "one",     "two",     "three",     "four",     "five",    "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  constexpr std::array<std::string_view, 6> kTens = {"", "", "twenty", "thirty", "forty", "fifty"};
  if (n < kSmall.size()) return std::string(kSmall[n]);
  return say(kTens[n / 10], n % 10 == 0 ? "" : "-", n % 10 == 0 ? "" : kSmall[n % 10]);
}

struct Person {
  std::string name;
  bool woman = false;
  std::string trade;
  std::string work;  // what one does in that trade
  std::string town;
  std::string pet;
  std::string pet_name;
};

struct Trade {
  std::string_view name;
  std::string_view work;
};
constexpr auto kTrades = std::to_array<Trade>({{"baker", "baked bread"},
                                               {"miller", "ground corn"},
                                               {"smith", "shod horses"},
                                               {"tailor", "sewed coats"},
                                               {"fisher", "mended nets"},
                                               {"potter", "made jars of clay"},
                                               {"teacher", "taught the children"},
                                               {"gardener", "planted roses"},
                                               {"clockmaker", "repaired clocks"},
                                               {"carpenter", "built tables"},
                                               {"ferryman", "rowed people over the river"},
                                               {"painter", "painted signs"}});

/// The people of a corpus: a name stands for the same person in every story.
std::vector<Person> people_of(std::uint64_t seed) {
  Dice dice(seed, 0);
  const auto pick = [&](std::string_view key) {
    const auto parts = split(alternatives_of(key));
    return std::string(parts[dice.below(parts.size())]);
  };
  std::vector<Person> people;
  for (const bool woman : {true, false}) {
    for (const std::string_view name : split(alternatives_of(woman ? "name_f" : "name_m"))) {
      const Trade& trade = kTrades[dice.below(kTrades.size())];
      people.push_back({.name = std::string(name),
                        .woman = woman,
                        .trade = std::string(trade.name),
                        .work = std::string(trade.work),
                        .town = pick("town_name"),
                        .pet = pick("pet_kind"),
                        .pet_name = pick("pet_name")});
    }
  }
  return people;
}

class Story {
 public:
  Story(const std::vector<Person>& people, std::uint64_t seed, std::uint64_t number)
      : dice_(seed, number + 1) {
    const std::size_t hero = dice_.below(people.size());
    const std::size_t other = (hero + 1 + dice_.below(people.size() - 1)) % people.size();
    introduce(people[hero], "", "hero");
    introduce(people[other], "f", "friend");
    for (const char* word : {"thing", "box"}) facts_[word] = fill(say("{", word, "_kind}"));
    facts_["season"] = fill("{season_name}");
  }

  std::string text() {
    std::string all = say(capitalized(fill(one_of(alternatives_of("title")))), "\n");
    all += say("\n", paragraph("intro"), "\n");
    constexpr std::array<std::string_view, 6> kKinds = {
        "journey", "work", "market", "weather_talk", "talk", "search"};
    const std::size_t count = dice_.between(3, 6);
    for (std::size_t i = 0; i < count; ++i) {
      all += say("\n", paragraph(kKinds[dice_.below(kKinds.size())]), "\n");
    }
    return all + say("\n", paragraph("ending"), "\n");
  }

 private:
  void introduce(const Person& person, std::string_view prefix, std::string_view role) {
    const auto set = [&](std::string_view key, std::string_view value) {
      facts_[say(prefix, key)] = value;
    };
    facts_[std::string(role)] = person.name;
    set("he", person.woman ? "she" : "he");
    set("him", person.woman ? "her" : "him");
    set("his", person.woman ? "her" : "his");
    set("trade", person.trade);
    set("work", person.work);
    set("town", person.town);
    set("pet", person.pet);
    set("petname", person.pet_name);
  }

  std::string_view one_of(std::string_view alternatives) {
    const auto parts = split(alternatives);
    return parts[dice_.below(parts.size())];
  }

  /// Some of a kind's sentences, none of them twice.
  std::string paragraph(std::string_view kind) {
    std::vector<std::string_view> left = split(alternatives_of(kind));
    const std::size_t count = dice_.between(3, 6);
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = dice_.below(left.size());
      draw_numbers();
      text += say(text.empty() ? "" : " ", fill(left[at]));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return text;
  }

  void draw_numbers() {
    const std::size_t n1 = dice_.between(2, 29);
    const std::size_t n2 = dice_.between(2, 29);
    facts_["n1"] = number_word(n1);
    facts_["n2"] = number_word(n2);
    facts_["sum"] = number_word(n1 + n2);
  }

  /// "the three old sailors sing by the river", "the old sailor sings by the river"
  std::string clause() {
    const std::size_t count = dice_.below(3) == 0 ? 1 : dice_.between(1, 9);
    const bool one = count == 1;
    // Drawn one by one: as arguments of one call they would be drawn in the compiler's order.
    const std::string adverbial = fill("{adverbial}");
    const std::string verb = fill("{verb}");
    const std::string subject = fill("{subject}");
    const std::string old = fill("{old}");
    return say("the ",
               one ? "" : say(number_word(count), " "),
               old,
               " ",
               subject,
               one ? "" : "s",
               " ",
               verb,
               one ? "s " : " ",
               adverbial);
  }

  std::string word_of(const std::string& key) {
    if (key == "does") return clause();
    const auto fact = facts_.find(key);
    if (fact != facts_.end()) return fact->second;
    const std::string_view rule = alternatives_of(key);
    if (rule.empty()) throw Error(say("the grammar has no rule for {", key, "}."));
    return fill(one_of(rule));
  }

  std::string fill(std::string_view phrase) {
    std::string text;
    while (!phrase.empty()) {
      const std::size_t open = std::min(phrase.find('{'), phrase.size());
      text += phrase.substr(0, open);
      phrase.remove_prefix(open);
      if (phrase.empty()) break;
      const std::size_t close = phrase.find('}');
      text += word_in_braces(phrase.substr(1, close - 1));
      phrase.remove_prefix(close + 1);
    }
    return text;
  }

  std::string word_in_braces(std::string_view inside) {
    const bool capital = inside.front() >= 'A' && inside.front() <= 'Z';
    std::string key(inside);
    if (capital) key.front() = static_cast<char>(key.front() - 'A' + 'a');
    std::string word;
    if (key.starts_with("a ")) {
      word = word_of(key.substr(2));
      const bool vowel = std::string_view("aeiou").find(word.front()) != std::string_view::npos;
      word = say(vowel ? "an " : "a ", word);
    } else {
      word = word_of(key);
    }
    return capital ? capitalized(std::move(word)) : word;
  }

  Dice dice_;
  std::map<std::string, std::string> facts_;
};

}  // namespace

std::string invented_text(const InventedTextSpec& spec) {
  const std::vector<Person> people = people_of(spec.seed);
  std::string text;
  for (std::uint64_t number = 0;; ++number) {
    const std::string story = Story(people, spec.seed, number).text();
    const std::string_view between = text.empty() ? "" : kBetweenStories;
    if (text.size() + between.size() + story.size() > spec.bytes) break;
    text += between;
    text += story;
  }
  return text;
}

}  // namespace norma::fetch
