#include "norma/kernels/gemm.h"

// A reference runs on one thread; and the bits must not depend on how many there are.
#define EIGEN_DONT_PARALLELIZE  // NOLINT(readability-identifier-naming): Eigen's own name
#include <Eigen/Core>

namespace norma::kernels {

// Eigen stands for the plain triple loop here: f64 models (Jacobians, gradient checks) would crawl
// with it, and a test compares the two.
template <class T>
void run(Ref, const Gemm<T>& g) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Stride = Eigen::OuterStride<>;
  const Eigen::Map<const Matrix, 0, Stride> a(
      g.a, g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, Stride(g.lda));
  const Eigen::Map<const Matrix, 0, Stride> b(
      g.b, g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, Stride(g.ldb));
  Eigen::Map<Matrix, 0, Stride> c(g.c, g.m, g.n, Stride(g.ldc));
  const auto alpha = static_cast<T>(g.alpha);
  if (g.addend != nullptr) {
    c = Eigen::Map<const Matrix, 0, Stride>(g.addend, g.m, g.n, Stride(g.ld_addend));
  }
  if (g.beta == 0) {
    c.setZero();
  } else if (g.beta != 1) {
    c *= static_cast<T>(g.beta);
  }
  if (g.trans_a && g.trans_b) {
    c.noalias() += alpha * (a.transpose() * b.transpose());
  } else if (g.trans_a) {
    c.noalias() += alpha * (a.transpose() * b);
  } else if (g.trans_b) {
    c.noalias() += alpha * (a * b.transpose());
  } else {
    c.noalias() += alpha * (a * b);
  }
}

template void run(Ref, const Gemm<float>&);
template void run(Ref, const Gemm<double>&);

}  // namespace norma::kernels
