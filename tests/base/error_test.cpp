#include "norma/base/error.h"

#include <gtest/gtest.h>

#include "norma/base/types.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

TEST(Error, ShapeErrorIsASentence) {
  const ShapeError error("rms_norm", "gain", "(C) with C = 768", "(512)");
  EXPECT_STREQ(error.what(), "rms_norm: gain must be (C) with C = 768, got (512).");
}

// The program decides its exit code by the kind: 2 for a request that cannot be right, else 1.
TEST(Error, KindsAreCaughtByTheirParents) {
  EXPECT_TRUE(test::throws<RequestError>([] { throw ShapeError("a", "b", "c", "d"); }, {"a: b"}));
  EXPECT_TRUE(test::throws<Error>([] { throw RequestError("asked wrongly"); }, {"asked wrongly"}));
  EXPECT_TRUE(test::throws<Error>([] { throw MemoryError("too much"); }, {"too much"}));
  EXPECT_TRUE(test::throws<std::runtime_error>([] { throw Error("broken"); }, {"broken"}));
  EXPECT_FALSE(test::throws<RequestError>([] { throw MemoryError("too much"); }, {}));
}

TEST(Types, NamesAndSizes) {
  EXPECT_EQ(name_of(DType::f32), "f32");
  EXPECT_EQ(name_of(DType::f64), "f64");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::i32), "i32");
  EXPECT_EQ(size_of(DType::f32), sizeof(float));
  EXPECT_EQ(size_of(DType::f64), sizeof(double));
  EXPECT_EQ(size_of(DType::i32), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DType::bf16), 2U);
  EXPECT_EQ(kDTypeOf<double>, DType::f64);
  EXPECT_EQ(kDTypeOf<std::int32_t>, DType::i32);
  EXPECT_EQ(kDTypeOf<float>, DType::f32);
}

}  // namespace
}  // namespace norma
