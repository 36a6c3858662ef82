// Every op of the registry on the GPU, in f32 and in bf16.
#include <gtest/gtest.h>

#include "norma/checks/device_case.h"
#include "norma/checks/registry.h"
#include "norma/device/device.h"
#include "tests/support/needs_gpu.h"

namespace norma::checks {
namespace {

class GpuOpChecks : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }

  static void all_pass(DType dtype) {
    const OpCheck& check = registry()[GetParam()];
    // Sizes for a card's many multiprocessors are too large for the host's GPU (tests/hopper).
    const bool card = device::info().multiprocessors >= 16;
    for (const CaseId& id : cases_of(check, 1, card)) {
      EXPECT_EQ(run_device_case(check, id, dtype).failure, "");
    }
  }
};

TEST_P(GpuOpChecks, F32) { all_pass(DType::f32); }
TEST_P(GpuOpChecks, Bf16) { all_pass(DType::bf16); }

INSTANTIATE_TEST_SUITE_P(Registry,
                         GpuOpChecks,
                         testing::Range<std::size_t>(0, registry().size()),
                         [](const auto& param) { return registry()[param.param].op; });

}  // namespace
}  // namespace norma::checks
