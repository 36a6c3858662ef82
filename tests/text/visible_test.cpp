#include "norma/text/visible.h"

#include <gtest/gtest.h>

#include "norma/io/strict_json.h"

namespace norma::text {
namespace {

TEST(Visible, PlainTextStaysAsItIs) { EXPECT_EQ(visible("Grüße, 世界 😀 ~"), "Grüße, 世界 😀 ~"); }

TEST(Visible, NothingDrivesTheTerminal) {
  EXPECT_EQ(visible("a\nb\tc\r\\"), "a\\nb\\tc\\r\\\\");
  EXPECT_EQ(visible(std::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(visible("\xC2\x9B\xE2\x80\xAE"), "\\u{009b}\\u{202e}");
}

TEST(Visible, BrokenUtf8IsShownByteByByte) {
  EXPECT_EQ(visible("a\xFF\xC3z\xE2\x82"), "a\\xff\\xc3z\\xe2\\x82");
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all += static_cast<char>(byte);
  EXPECT_EQ(io::first_bad_utf8(visible(all)), std::string_view::npos);
}

}  // namespace
}  // namespace norma::text
