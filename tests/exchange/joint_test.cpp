#include "norma/exchange/joint.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma::exchange {
namespace {

using test::numbers;

const io::StoredType& f32() { return *io::find_stored_type("F32"); }

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Joints : public testing::Test {
 protected:
  OwnedTensor a_ = numbers({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  OwnedTensor b_ = numbers({1, 3}, DType::f32, {7, 8, 9});
  OwnedTensor v_ = numbers({8}, DType::f32, {0, 1, 2, 3, 4, 5, 6, 7});
  TensorMap ours_ = {{"a", a_.tensor}, {"b", b_.tensor}, {"v", v_.tensor}};

  void expect(const Joint& joint,
              const std::vector<std::uint64_t>& shape,
              const std::vector<float>& values) const {
    EXPECT_EQ(stored_spec(joint, ours_, f32()).shape, shape);
    EXPECT_EQ(floats(gather(joint, ours_, f32())), values);
  }
};

TEST_F(Joints, RowsOneBelowTheOther) {
  expect({.theirs = "t", .parts = {{"a"}, {"b"}}}, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_F(Joints, Transposed) {
  expect({.theirs = "t", .parts = {{"a"}, {"b"}}, .transposed = true},
         {3, 3},
         {1, 4, 7, 2, 5, 8, 3, 6, 9});
  expect({.theirs = "t", .parts = {{"a"}}, .transposed = true}, {3, 2}, {1, 4, 2, 5, 3, 6});
}

TEST_F(Joints, OnlyTheFirstRows) {
  expect({.theirs = "t", .parts = {{"a"}}, .first_rows = 1}, {1, 3}, {1, 2, 3});
}

TEST_F(Joints, ZerosWhereWeHaveNone) {
  expect(
      {.theirs = "t", .parts = {{"", 2}, {"v"}, {"", 1}}}, {11}, {0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 0});
}

TEST_F(Joints, HeadsAreTurned) {
  // Two heads of four: pairs (0, 1) and (2, 3) become (0, 2) and (1, 3).
  expect({.theirs = "t", .parts = {{"v"}}, .turned_head = 4}, {8}, {0, 2, 1, 3, 4, 6, 5, 7});
  expect({.theirs = "t", .parts = {{"v"}}, .turned_head = 8}, {8}, {0, 2, 4, 6, 1, 3, 5, 7});
}

TEST_F(Joints, ScatterIsTheReverse) {
  for (const Joint& joint : {Joint{.theirs = "t", .parts = {{"a"}, {"b"}}, .transposed = true},
                             Joint{.theirs = "t", .parts = {{"v"}}, .turned_head = 4},
                             Joint{.theirs = "t", .parts = {{"", 3}, {"v"}}}}) {
    const std::vector<std::byte> bytes = gather(joint, ours_, f32());
    const OwnedTensor a({2, 3}, DType::f32);
    const OwnedTensor b({1, 3}, DType::f32);
    const OwnedTensor v({8}, DType::f32);
    const TensorMap others = {{"a", a.tensor}, {"b", b.tensor}, {"v", v.tensor}};
    scatter(joint, others, f32(), bytes);
    for (const Part& part : joint.parts) {
      if (part.name.empty()) continue;
      EXPECT_TRUE(test::same_bits(others.at(part.name), ours_.at(part.name))) << part.name;
    }
  }
}

TEST_F(Joints, AnUnknownNameIsAnError) {
  EXPECT_TRUE(test::throws<Error>([&] { gather({.theirs = "t", .parts = {{"w"}}}, ours_, f32()); },
                                  {"no tensor w"}));
}

}  // namespace
}  // namespace norma::exchange
