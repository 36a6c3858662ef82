#include "norma/tensor/buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

TEST(Buffer, IsZeroAndStartsOnACacheLine) {
  for (const std::size_t bytes : {1, 63, 64, 65, 4096, 3 << 20}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kAlignment, 0U) << bytes;
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes, [](std::byte b) {
      return b == std::byte{0};
    })) << bytes;
  }
}

TEST(Buffer, NothingCanBeHeld) {
  const Buffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.bytes(), 0U);
}

TEST(Buffer, MoreThanTheMachineHasIsRefusedWithBothSizes) {
  const std::size_t wanted = 4 * machine_memory();
  EXPECT_TRUE(test::throws<MemoryError>([&] { Buffer{wanted}; },
                                        {human_bytes(static_cast<double>(wanted)),
                                         human_bytes(static_cast<double>(machine_memory())),
                                         "smaller model, batch or context"}));
  // A size near the end of the range must not wrap around when it is rounded up.
  EXPECT_TRUE(test::throws<MemoryError>([] { Buffer{~std::size_t{0}}; }, {"wanted"}));
}

TEST(Buffer, ATensorThatDoesNotFitIsRefused) {
  EXPECT_TRUE(test::throws<MemoryError>(
      [] {
        OwnedTensor({Index{1} << 29, Index{1} << 20}, DType::f64);
      },
      {"wanted", "TiB"}));
}

TEST(Buffer, AnotherDeviceIsRefused) {
  if (device::available()) GTEST_SKIP() << "here there is one";
  EXPECT_TRUE(
      test::throws<RequestError>([] { Buffer(64, {.kind = DeviceKind::cuda}); }, {"CUDA", "cpu"}));
}

TEST(Buffer, MovesWithItsMemory) {
  Buffer first(128);
  first.data()[5] = std::byte{9};
  const Buffer second = std::move(first);
  EXPECT_EQ(second.data()[5], std::byte{9});
  EXPECT_EQ(second.bytes(), 128U);
}

TEST(Buffer, OwnedTensorViewsItsBuffer) {
  const OwnedTensor t({3, 5}, DType::f64);
  EXPECT_EQ(static_cast<void*>(t.buffer.data()), t.tensor.data);
  EXPECT_EQ(t.buffer.bytes(), 3U * 5U * sizeof(double));
  EXPECT_EQ(value_at(t.tensor, 2, 4), 0);
}

TEST(Buffer, AlignedBytesRoundUpToWholeLines) {
  EXPECT_EQ(aligned_bytes(0), 0U);
  EXPECT_EQ(aligned_bytes(1), kAlignment);
  EXPECT_EQ(aligned_bytes(kAlignment), kAlignment);
  EXPECT_EQ(aligned_bytes(kAlignment + 1), 2 * kAlignment);
}

}  // namespace
}  // namespace norma
