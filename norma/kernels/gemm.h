// Matrix products, row-major. The one door to oneDNN (f32) and Eigen (f64, and f32 where oneDNN is
// absent).
#pragma once

#include <cstdint>
#include <string>

#include "norma/base/types.h"
#include "norma/kernels/exec.h"

namespace norma::kernels {

/// What a product does with its result before it stores it. Cuda with bf16 alone, and with sizes
/// that are multiples of kEpilogueMultiple.
enum class Epilogue : std::uint8_t {
  none,
  gelu  // C = gelu_tanh(product), and the product goes to `inner`
};
inline constexpr Index kEpilogueMultiple = 16;

/// C (m, n) = alpha·op(A) (m, k) · op(B) (k, n) + beta·C. beta = 0 does not read C. Where there is
/// an addend, it stands in the place of C on the right, and C is only written. On Cpu the product
/// is cut into tiles that depend on its size alone, so the bits do not depend on the thread count.
/// (A library that splits k over its threads would not keep that promise.) C may be wider than A
/// and B (gradients of bf16 weights are summed in f32).
template <class T, class Result = T>
struct Gemm {
  bool trans_a = false;
  bool trans_b = false;
  Index m = 0;
  Index n = 0;
  Index k = 0;
  const T* a = nullptr;
  Index lda = 0;
  const T* b = nullptr;
  Index ldb = 0;
  Result* c = nullptr;
  Index ldc = 0;
  double alpha = 1;
  double beta = 0;
  const Result* addend = nullptr;  // (m, n), apart from C
  Index ld_addend = 0;
  Epilogue epilogue = Epilogue::none;
  T* inner = nullptr;  // (m, n), rows ldc apart, where there is an epilogue
};
template <class T>
void run(Ref, const Gemm<T>& g);
void run(Cpu, const Gemm<float>& g);
void run(CpuThread, const Gemm<float>& g);
template <class T, class Result>
void run(Cuda, const Gemm<T, Result>& g);

/// "oneDNN 2.6.3" or "Eigen 3.4.0": who multiplies in f32.
std::string gemm_library();

}  // namespace norma::kernels
