// Stands in for oneDNN where it is absent (and under ThreadSanitizer, which cannot see into it).
#include "norma/kernels/gemm.h"

namespace norma::kernels {

void run(CpuThread, const Gemm<float>& g) { run(Ref{}, g); }

std::string gemm_library() { return "Eigen (oneDNN is faster: install libdnnl-dev)"; }

}  // namespace norma::kernels
