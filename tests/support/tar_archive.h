// Tar archives for tests, a member at a time, right or wrong as the test wants them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

namespace norma::test {

struct TarMember {
  std::string name;
  std::string contents;
  char kind = '0';
  std::string prefix{};
};

inline std::string tar_member(const TarMember& member) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const auto octal = [](std::size_t value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put(0, member.name);
  put(100, "0000644");
  put(124, octal(member.contents.size(), 11));
  put(148, std::string(8, ' '));
  put(156, std::string(1, member.kind));
  put(257, std::string("ustar\00000", 8));
  put(345, member.prefix);
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return header + member.contents + std::string((512 - member.contents.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace norma::test
