// Our own product for gradients of weights: the choice of products may always take the library's,
// so it is asked here by its name.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "norma/device/device.h"
#include "norma/kernels/cuda/product_weights.h"
#include "tests/support/needs_gpu.h"

namespace norma::kernels {
namespace {

struct Case {
  Index m, n, k;
  Index padding;
};

/// Whole numbers between −3 and 3: all sums of them are exact in f32.
int whole(Index row, Index col, Index stream) {
  const auto mixed = static_cast<std::uint64_t>(row * 7919 + col * 104729 + stream * 1299709);
  return static_cast<int>((mixed * 2654435761U >> 9) % 7) - 3;
}

template <class T>
struct OnDevice {
  explicit OnDevice(const std::vector<T>& from)
      : bytes(from.size() * sizeof(T)), data(static_cast<T*>(device::allocate(bytes))) {
    device::copy_in(data, from.data(), bytes);
  }
  ~OnDevice() { device::release(data); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  std::size_t bytes;
  T* data;
};

std::vector<Bf16> factor(Index rows, Index stride, Index stream) {
  std::vector<Bf16> made;
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < stride; ++c) {
      made.push_back(to_bf16(static_cast<float>(whole(r, c, stream))));
    }
  }
  return made;
}

/// All of C, with what lies between its rows, which must stay 0.5.
std::vector<float> product(const Case& s, double beta) {
  const Index stride = s.n + s.padding;
  std::vector<float> c(static_cast<std::size_t>(s.m * stride), 0.5f);
  const OnDevice<Bf16> a(factor(s.k, s.m + s.padding, 1));
  const OnDevice<Bf16> b(factor(s.k, s.n + s.padding, 2));
  const OnDevice<float> there(c);
  const OnDevice<char> workspace{std::vector<char>(device::kProductWorkspaceBytes)};
  Gemm<Bf16, float> g;
  g.trans_a = true;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.a = a.data;
  g.lda = s.m + s.padding;
  g.b = b.data;
  g.ldb = stride;
  g.c = there.data;
  g.ldc = stride;
  g.beta = beta;
  if constexpr (device::kBuiltWithCuda) {
    if (!run_weight_product(g, workspace.data)) return {};
  }
  device::copy_out(c.data(), there.data, there.bytes);
  return c;
}

class GpuWeightProduct : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { NORMA_NEEDS_GPU(); }
};

TEST_P(GpuWeightProduct, IsExactForWholeNumbersAndTheSameTwice) {
  const Case& s = GetParam();
  const Index stride = s.n + s.padding;
  for (const double beta : {0.0, 1.0}) {
    const std::vector<float> c = product(s, beta);
    if (c.empty()) GTEST_SKIP() << "not for this GPU";
    const std::vector<float> again = product(s, beta);
    EXPECT_EQ(std::memcmp(c.data(), again.data(), c.size() * sizeof(float)), 0);
    for (Index r = 0; r < s.m; ++r) {
      for (Index i = s.n; i < stride; ++i) {
        ASSERT_EQ(c[static_cast<std::size_t>(r * stride + i)], 0.5f) << "behind row " << r;
      }
      // A few of each row; 389 rows meet every column.
      for (Index i = r % 389; i < s.n; i += 389) {
        int want = 0;
        for (Index k = 0; k < s.k; ++k) want += whole(k, r, 1) * whole(k, i, 2);
        ASSERT_EQ(c[static_cast<std::size_t>(r * stride + i)],
                  static_cast<float>(want) + (beta == 0 ? 0.0f : 0.5f))
            << "row " << r << " column " << i;
      }
    }
  }
}

// Whole tiles alone; tiles that two, three and many share; more tiles than clusters; ragged ones.
INSTANTIATE_TEST_SUITE_P(Shapes,
                         GpuWeightProduct,
                         testing::Values(Case{256, 256, 64, 0},
                                         Case{256, 512, 4096, 0},
                                         Case{1000, 648, 200, 8},
                                         Case{1096, 264, 8001, 16},
                                         Case{1280, 1280, 6400, 0},
                                         Case{2560, 2560, 3200, 0},
                                         Case{8, 24, 1000, 0}));

}  // namespace
}  // namespace norma::kernels
