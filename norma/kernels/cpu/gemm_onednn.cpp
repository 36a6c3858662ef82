#include <algorithm>

#include <dnnl.h>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/kernels/gemm.h"

namespace norma::kernels {

// Inside a parallel region oneDNN runs on the calling thread. Left to its own threading it splits
// long k (49 of 5818 random products changed bits between one and two threads).
void run(CpuThread, const Gemm<float>& g) {
  if (g.addend != nullptr) {
    for (Index i = 0; i < g.m; ++i) {
      std::copy_n(g.addend + i * g.ld_addend, g.n, g.c + i * g.ldc);
    }
  }
  const dnnl_status_t status = dnnl_sgemm(g.trans_a ? 'T' : 'N',
                                          g.trans_b ? 'T' : 'N',
                                          g.m,
                                          g.n,
                                          g.k,
                                          static_cast<float>(g.alpha),
                                          g.a,
                                          g.lda,
                                          g.b,
                                          g.ldb,
                                          static_cast<float>(g.beta),
                                          g.c,
                                          g.ldc);
  if (status != dnnl_success) {
    throw Error(say("oneDNN refused a product (",
                    g.m,
                    ", ",
                    g.k,
                    ") x (",
                    g.k,
                    ", ",
                    g.n,
                    ") with status ",
                    static_cast<int>(status),
                    "."));
  }
}

std::string gemm_library() {
  const dnnl_version_t* version = dnnl_version();
  return say("oneDNN ", version->major, ".", version->minor, ".", version->patch);
}

}  // namespace norma::kernels
