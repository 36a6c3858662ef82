// Tests that mean nothing without a GPU.
#pragma once

#include <gtest/gtest.h>

#include "norma/device/device.h"

/// Skips the test, or in SetUp() all of a fixture.
#define NORMA_NEEDS_GPU() \
  if (!norma::device::available()) GTEST_SKIP() << "there is no GPU that this build can use"
