#include "norma/checks/ceilings.h"

#include <algorithm>
#include <array>

#include "norma/base/clock.h"
#include "norma/kernels/gemm.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma::checks {

namespace {

/// Seconds of the quickest of several calls.
template <class F>
double best_seconds(int calls, F&& f) {
  f();
  double best = 1e30;
  for (int i = 0; i < calls; ++i) {
    const Stopwatch watch;
    f();
    best = std::min(best, watch.seconds());
  }
  return best;
}

double gemm_gflops(Index m, Index n, Index k) {
  const OwnedTensor a({m, k}, DType::f32);
  const OwnedTensor b({k, n}, DType::f32);
  const OwnedTensor c({m, n}, DType::f32);
  fill(a.tensor, 0.5);
  fill(b.tensor, 0.25);
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const double seconds = best_seconds(12, [&] {
    kernels::run(kernels::Cpu{},
                 kernels::Gemm<float>{.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a.tensor.as<const float>(),
                                      .lda = k,
                                      .b = b.tensor.as<const float>(),
                                      .ldb = n,
                                      .c = c.tensor.as<float>(),
                                      .ldc = n});
  });
  return flops / seconds * 1e-9;
}

}  // namespace

double measure_gemm_peak() {
  struct Product {
    Index m, n, k;
  };
  constexpr std::array kProducts = {Product{768, 768, 768},
                                    Product{1024, 1024, 1024},
                                    Product{2048, 1536, 384},
                                    Product{1536, 1536, 1536}};
  double best = 0;
  for (const Product& p : kProducts) best = std::max(best, gemm_gflops(p.m, p.n, p.k));
  return best;
}

double measure_copy_bandwidth() {
  const Shape shape{Index{1} << 25};  // 128 MiB each way: beyond every cache
  const OwnedTensor from(shape, DType::f32);
  const OwnedTensor to(shape, DType::f32);
  const double seconds = best_seconds(6, [&] { copy(from.tensor, to.tensor); });
  return 2.0 * static_cast<double>(from.tensor.bytes()) / seconds * 1e-9;
}

}  // namespace norma::checks
