// The rule by which rows are cut into parts.
#include "norma/ops/row_parts.h"

#include <gtest/gtest.h>

namespace norma {
namespace {

TEST(RowParts, AreEqualTilesWhereTheRowsAllowIt) {
  const Index most = (Index{1} << 30) / (50304 * 2);  // a GiB of GPT-2's logits in bf16
  EXPECT_EQ(rows_of_part(65536, most), 8192);
  EXPECT_EQ(rows_of_part(32768, most), 8192);
  EXPECT_EQ(rows_of_part(16384, most), 8192);
  EXPECT_EQ(rows_of_part(65536, most / 2), 4096);
}

TEST(RowParts, AreOneWhereEverythingFits) {
  EXPECT_EQ(rows_of_part(8192, 8192), 8192);
  EXPECT_EQ(rows_of_part(77, 1000), 77);
  EXPECT_EQ(rows_of_part(0, 1000), 0);
}

TEST(RowParts, LeaveASmallerLastOneElsewhere) {
  EXPECT_EQ(rows_of_part(16385, 8192), 5504);      // 5504 + 5504 + 5377
  EXPECT_EQ(rows_of_part(127 * 128, 8192), 8192);  // 127 is prime: 8192 + 8064
  EXPECT_EQ(rows_of_part(128 * 5, 300), 256);      // 256 + 256 + 128, and not five of 128
}

TEST(RowParts, AreShortWhereATileDoesNotFit) {
  EXPECT_EQ(rows_of_part(1000, 100), 100);
  EXPECT_EQ(rows_of_part(101, 100), 51);
  EXPECT_EQ(rows_of_part(5, 0), 1);
}

TEST(RowParts, NeverTakeMoreThanTheyMayNorManyMoreTurns) {
  for (Index most = 1; most < 1500; most += 37) {
    for (Index rows = 1; rows < 6000; rows += 61) {
      const Index part = rows_of_part(rows, most);
      ASSERT_GE(part, 1);
      ASSERT_LE(part, most);
      // Whole tiles may waste up to half of what fits, and equal parts as much again.
      ASSERT_LE((rows + part - 1) / part, 4 * ((rows + most - 1) / most)) << rows << " by " << most;
    }
  }
}

}  // namespace
}  // namespace norma
