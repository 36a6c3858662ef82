// Several sums over lanes at once are those that one after the other would be, to the last bit.
#include <random>

#include <gtest/gtest.h>

#include "norma/kernels/cuda/pack.cuh"
#include "tests/hopper/machine.h"

namespace norma::kernels {
namespace {

template <int kLanes, int kSums>
void expect_same_bits() {
  float numbers[32][kSums];
  float single[32][kSums];
  float joint[32][kSums];
  std::mt19937_64 random(kLanes * 100 + kSums);
  std::normal_distribution<float> normal;
  for (auto& of_lane : numbers) {
    for (float& one : of_lane) one = normal(random);
  }
  hopper::run({.threads = 32}, [&] {
    const int lane = hopper::thread();
    float values[kSums];
    for (int k = 0; k < kSums; ++k) {
      values[k] = numbers[lane][k];
      single[lane][k] = warp_sum<kLanes>(values[k]);
    }
    warp_sums<kLanes>(values);
    for (int k = 0; k < kSums; ++k) joint[lane][k] = values[k];
  });
  for (int lane = 0; lane < 32; ++lane) {
    for (int k = 0; k < kSums; ++k) {
      EXPECT_EQ(joint[lane][k], single[lane][k])
          << "lane " << lane << ", sum " << k << " of " << kSums << " over " << kLanes;
    }
  }
}

template <int kSums>
void expect_same_bits_over_groups() {
  expect_same_bits<1, kSums>();
  expect_same_bits<2, kSums>();
  expect_same_bits<4, kSums>();
  expect_same_bits<8, kSums>();
  expect_same_bits<16, kSums>();
  expect_same_bits<32, kSums>();
}

TEST(WarpSums, HaveTheBitsOfSingleSums) {
  expect_same_bits_over_groups<1>();
  expect_same_bits_over_groups<2>();
  expect_same_bits_over_groups<3>();
  expect_same_bits_over_groups<4>();
  expect_same_bits_over_groups<5>();
  expect_same_bits_over_groups<8>();
  expect_same_bits_over_groups<12>();
}

}  // namespace
}  // namespace norma::kernels
