// norma schemes: the catalogue, one scheme as a table of its sites, what differs between two.
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/nn/scheme_text.h"

namespace norma::app {

namespace {

Scheme load(const std::string& name) {
  Scheme scheme = read_scheme(scheme_settings(name));
  for (const std::string& warning : judge_scheme(scheme, true)) {
    std::fprintf(stderr, "norma: warning: %s\n", warning.c_str());
  }
  return scheme;
}

/// Characters on the screen, where text has letters beyond ASCII.
std::size_t screen_width(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

std::string padded(const std::string& text, std::size_t width) {
  const std::size_t have = screen_width(text);
  return text + std::string(have < width ? width - have : 0, ' ');
}

void print_list(bool json) {
  for (const std::string& name : scheme_names()) {
    const Scheme scheme = read_scheme(scheme_settings(name));
    if (json) {
      JsonLine line;
      line.add("name", name).add("idea", scheme.idea).add("source", scheme.source);
      std::puts(line.text().c_str());
    } else {
      std::printf("%-20s %s (%s)\n", name.c_str(), scheme.idea.c_str(), scheme.source.c_str());
    }
  }
}

void print_table(const Scheme& scheme) {
  std::printf(
      "%s: %s\nsource: %s\n\n", scheme.name.c_str(), scheme.idea.c_str(), scheme.source.c_str());
  const std::vector<SchemeRow> rows = describe(scheme);
  std::size_t width = 0;
  for (const SchemeRow& row : rows) width = std::max(width, screen_width(row.part));
  for (const SchemeRow& row : rows) {
    std::printf("%s  %s\n", padded(row.part, width).c_str(), row.text.c_str());
  }
  std::puts("");
  for (const std::string& line : equations(scheme)) std::printf("  %s\n", line.c_str());
}

/// A bar inside a cell, as in x/|x|, would end it.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

void print_markdown(const Scheme& scheme) {
  std::puts("| place | what is done there |\n|---|---|");
  for (const SchemeRow& row : describe(scheme)) {
    std::printf("| %s | %s |\n", cell(row.part).c_str(), cell(row.text).c_str());
  }
  std::puts("\n```");
  for (const std::string& line : equations(scheme)) std::puts(line.c_str());
  std::puts("```");
}

void print_difference(const Scheme& scheme, const Scheme& other) {
  const std::vector<SchemeDifference> rows = difference(scheme, other);
  if (rows.empty()) {
    std::printf("%s and %s do not differ.\n", scheme.name.c_str(), other.name.c_str());
    return;
  }
  std::size_t width = 0;
  for (const SchemeDifference& row : rows) width = std::max(width, screen_width(row.part));
  const std::size_t names = std::max(scheme.name.size(), other.name.size());
  for (const SchemeDifference& row : rows) {
    std::printf("%s  %s  %s\n",
                padded(row.part, width).c_str(),
                padded(scheme.name, names).c_str(),
                row.ours.c_str());
    std::printf("%s  %s  %s\n",
                std::string(width, ' ').c_str(),
                padded(other.name, names).c_str(),
                row.theirs.c_str());
  }
}

}  // namespace

int run_schemes(const SchemesRequest& request) {
  if (request.name.empty()) {
    if (request.toml || request.markdown || !request.other.empty()) {
      throw RequestError("schemes: name a scheme first, like norma schemes dnt --toml.");
    }
    print_list(request.json);
    return 0;
  }
  const Scheme scheme = load(request.name);
  if (!request.other.empty()) {
    print_difference(scheme, load(request.other));
  } else if (request.toml) {
    std::fputs(toml_text(scheme_settings(request.name), Origins::hidden).c_str(), stdout);
  } else if (request.markdown) {
    print_markdown(scheme);
  } else {
    print_table(scheme);
  }
  return 0;
}

}  // namespace norma::app
