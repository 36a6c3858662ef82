// Matrix products in the place of cuBLASLt's: plain loops.
#include "norma/kernels/gemm.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

#include "norma/base/bf16.h"

namespace norma::kernels {

namespace {

double wide(float value) { return static_cast<double>(value); }
double wide(Bf16 value) { return static_cast<double>(to_float(value)); }
void put(float& to, double value) { to = static_cast<float>(value); }
void put(Bf16& to, double value) { to = to_bf16(static_cast<float>(value)); }

double gelu_tanh(double x) {
  constexpr double kRoot = 0.7978845608028654;  // of 2/pi
  return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
}

template <class T, class Result>
void multiply(const Gemm<T, Result>& g) {
  const auto n = static_cast<std::size_t>(g.n);
  std::vector<double> right(static_cast<std::size_t>(g.k) * n);
  for (Index p = 0; p < g.k; ++p) {
    for (Index j = 0; j < g.n; ++j) {
      right[static_cast<std::size_t>(p) * n + static_cast<std::size_t>(j)] =
          wide(g.trans_b ? g.b[j * g.ldb + p] : g.b[p * g.ldb + j]);
    }
  }
  std::vector<double> sums(n);
  for (Index i = 0; i < g.m; ++i) {
    sums.assign(n, 0);
    for (Index p = 0; p < g.k; ++p) {
      const double left = wide(g.trans_a ? g.a[p * g.lda + i] : g.a[i * g.lda + p]);
      const double* const row = &right[static_cast<std::size_t>(p) * n];
      for (std::size_t j = 0; j < n; ++j) sums[j] += left * row[j];
    }
    for (Index j = 0; j < g.n; ++j) {
      Result& to = g.c[i * g.ldc + j];
      double value = g.alpha * sums[static_cast<std::size_t>(j)];
      if (g.beta != 0) {
        value += g.beta * wide(g.addend != nullptr ? g.addend[i * g.ld_addend + j] : to);
      }
      if constexpr (std::is_same_v<T, Result>) {
        if (g.epilogue == Epilogue::gelu) {
          put(g.inner[i * g.ldc + j], value);
          value = gelu_tanh(value);
        }
      }
      put(to, value);
    }
  }
}

}  // namespace

template <class T, class Result>
void run(Cuda, const Gemm<T, Result>& g) {
  hopper::queue([g] { multiply(g); });
}

template void run(Cuda, const Gemm<float>& g);
template void run(Cuda, const Gemm<Bf16>& g);
template void run(Cuda, const Gemm<Bf16, float>& g);

}  // namespace norma::kernels
