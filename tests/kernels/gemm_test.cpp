#include "norma/kernels/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/rng.h"
#include "norma/base/threads.h"

namespace norma::kernels {
namespace {

/// A row-major matrix whose rows may lie further apart than they are wide.
template <class T>
struct Matrix {
  Matrix(Index row_count, Index col_count, Index padding, std::uint64_t stream)
      : rows(row_count),
        cols(col_count),
        stride(col_count + padding),
        data(static_cast<std::size_t>(rows * stride)) {
    for (std::size_t i = 0; i < data.size(); i += 4) {  // four words of a block at a time: quick
      const RandomBlock block = random_block({7, stream}, i);
      for (std::size_t k = i; k < std::min(i + 4, data.size()); ++k) {
        data[k] = static_cast<T>(2 * uniform_of(block[k - i]) - 1);
      }
    }
  }
  T at(Index r, Index c) const { return data[static_cast<std::size_t>(r * stride + c)]; }
  Index rows, cols, stride;
  std::vector<T> data;
};

struct Sizes {
  Index m, n, k;
};
struct Factors {
  double alpha, beta;
  bool apart = false;  // beta multiplies an addend that is not C
};

/// Runs one product and compares every element of C with the triple loop in double; the elements
/// between the rows of C must stay as they were.
template <class T, class Who>
void check(Who who, Sizes s, bool trans_a, bool trans_b, Factors f, Index padding) {
  const Matrix<T> a(trans_a ? s.k : s.m, trans_a ? s.m : s.k, padding, 1);
  const Matrix<T> b(trans_b ? s.n : s.k, trans_b ? s.k : s.n, 2 * padding, 2);
  Matrix<T> c(s.m, s.n, 3 * padding, 3);
  const Matrix<T> before = c;
  const Matrix<T> addend(s.m, s.n, 4 * padding, 4);
  if (f.beta == 0 || f.apart) {  // C must not be read
    for (Index r = 0; r < s.m; ++r) {
      for (Index i = 0; i < s.n; ++i) {
        c.data[static_cast<std::size_t>(r * c.stride + i)] = std::numeric_limits<T>::quiet_NaN();
      }
    }
  }
  run(who,
      Gemm<T>{.trans_a = trans_a,
              .trans_b = trans_b,
              .m = s.m,
              .n = s.n,
              .k = s.k,
              .a = a.data.data(),
              .lda = a.stride,
              .b = b.data.data(),
              .ldb = b.stride,
              .c = c.data.data(),
              .ldc = c.stride,
              .alpha = f.alpha,
              .beta = f.beta,
              .addend = f.apart ? addend.data.data() : nullptr,
              .ld_addend = f.apart ? addend.stride : 0});
  const Matrix<T>& added = f.apart ? addend : before;
  const double unit = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (Index r = 0; r < s.m; ++r) {
    for (Index i = 0; i < c.stride; ++i) {
      if (i >= s.n) {
        ASSERT_EQ(c.at(r, i), before.at(r, i)) << "between rows, at " << r << ", " << i;
        continue;
      }
      double sum = 0;
      double size = 0;
      for (Index k = 0; k < s.k; ++k) {
        const auto x = static_cast<double>(trans_a ? a.at(k, r) : a.at(r, k));
        const auto y = static_cast<double>(trans_b ? b.at(i, k) : b.at(k, i));
        sum += x * y;
        size += std::abs(x * y);
      }
      const double old = f.beta == 0 ? 0 : f.beta * static_cast<double>(added.at(r, i));
      const double want = f.alpha * sum + old;
      const double room = 8 * unit * (std::abs(f.alpha) * size + std::abs(old));
      ASSERT_NEAR(static_cast<double>(c.at(r, i)), want, room)
          << "(" << s.m << ", " << s.n << ", " << s.k << ") " << trans_a << trans_b << " alpha "
          << f.alpha << " beta " << f.beta << (f.apart ? " apart" : "") << " at (" << r << ", " << i
          << ")";
    }
  }
}

template <class T, class Who>
void check_all(Who who) {
  for (const Sizes s : {Sizes{1, 1, 1},
                        Sizes{1, 17, 5},
                        Sizes{7, 1, 3},
                        Sizes{5, 3, 1},
                        Sizes{33, 31, 65},
                        Sizes{64, 48, 32},
                        Sizes{70, 67, 257}}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        for (const Factors f : {Factors{1, 0},
                                Factors{1, 1},
                                Factors{0.5, 0},
                                Factors{2, -0.75},
                                Factors{1, 1, true},
                                Factors{2, -0.75, true}}) {
          for (const Index padding : {0, 3}) check<T>(who, s, trans_a, trans_b, f, padding);
        }
      }
    }
  }
}

TEST(Gemm, ReferenceF64EqualsTheTripleLoop) { check_all<double>(Ref{}); }
TEST(Gemm, ReferenceF32EqualsTheTripleLoop) { check_all<float>(Ref{}); }
TEST(Gemm, CpuEqualsTheTripleLoop) { check_all<float>(Cpu{}); }

/// C of one product with a given number of threads.
std::vector<float> product(Sizes s, bool trans_a, bool trans_b, double beta, int threads) {
  const ThreadScope scope(threads);
  const Matrix<float> a(trans_a ? s.k : s.m, trans_a ? s.m : s.k, 0, 1);
  const Matrix<float> b(trans_b ? s.n : s.k, trans_b ? s.k : s.n, 0, 2);
  Matrix<float> c(s.m, s.n, 0, 3);
  run(Cpu{},
      Gemm<float>{.trans_a = trans_a,
                  .trans_b = trans_b,
                  .m = s.m,
                  .n = s.n,
                  .k = s.k,
                  .a = a.data.data(),
                  .lda = a.stride,
                  .b = b.data.data(),
                  .ldb = b.stride,
                  .c = c.data.data(),
                  .ldc = c.stride,
                  .beta = beta});
  return c.data;
}

/// A linear map in training: rows × in → out, forward, dx and dW (set and added).
struct Map {
  Index rows, in, out;
};
class GemmThreads : public testing::TestWithParam<Map> {};
INSTANTIATE_TEST_SUITE_P(Training,
                         GemmThreads,
                         testing::Values(Map{768, 128, 384},
                                         Map{768, 128, 512},
                                         Map{768, 512, 128},
                                         Map{768, 128, 65},
                                         Map{1024, 192, 576},
                                         Map{512, 192, 4096},
                                         Map{2048, 384, 1536},
                                         Map{2048, 384, 65},
                                         // Where the library's own threads change the bits.
                                         Map{512, 1024, 255},
                                         Map{47, 2048, 384},
                                         Map{1, 4099, 512},
                                         Map{1, 6, 4099}));

TEST_P(GemmThreads, AnyThreadCountGivesTheSameBits) {
  const Map map = GetParam();
  const auto same = [](Sizes s, bool trans_a, bool trans_b, double beta) {
    const std::vector<float> one = product(s, trans_a, trans_b, beta, 1);
    return one == product(s, trans_a, trans_b, beta, 2) &&
           one == product(s, trans_a, trans_b, beta, 3);
  };
  EXPECT_TRUE(same({map.rows, map.out, map.in}, false, true, 0)) << "forward";
  EXPECT_TRUE(same({map.rows, map.in, map.out}, false, false, 0)) << "dx";
  EXPECT_TRUE(same({map.rows, map.in, map.out}, false, false, 1)) << "dx, added";
  EXPECT_TRUE(same({map.out, map.in, map.rows}, true, false, 0)) << "dW";
  EXPECT_TRUE(same({map.out, map.in, map.rows}, true, false, 1)) << "dW, added";
}

TEST(Gemm, ManyThreadsMayMultiplyAtOnce) {
  constexpr Sizes kSizes = {64, 64, 48};
  const std::vector<float> want = product(kSizes, false, true, 0, 1);
  const Matrix<float> a(64, 48, 0, 1);
  const Matrix<float> b(64, 48, 0, 2);
  const ThreadScope scope(4);
  std::vector<std::vector<float>> got(16, std::vector<float>(want.size()));
#pragma omp parallel for
  for (std::size_t i = 0; i < got.size(); ++i) {
    run(Cpu{},
        Gemm<float>{.trans_b = true,
                    .m = 64,
                    .n = 64,
                    .k = 48,
                    .a = a.data.data(),
                    .lda = 48,
                    .b = b.data.data(),
                    .ldb = 48,
                    .c = got[i].data(),
                    .ldc = 64});
  }
  for (const std::vector<float>& c : got) EXPECT_EQ(c, want);
}

TEST(Gemm, TheLibraryHasAName) { EXPECT_FALSE(gemm_library().empty()); }

}  // namespace
}  // namespace norma::kernels
