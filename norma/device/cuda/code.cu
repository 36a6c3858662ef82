#include "norma/device/cuda/launch.cuh"
#include "norma/device/device.h"

namespace norma::device {

namespace {

__global__ void code_kernel(Code* code) {
#ifdef __CUDA_ARCH__
  code->architecture = __CUDA_ARCH__;
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  code->for_hopper = true;
#endif
}

}  // namespace

bool has_code() {
  cudaFuncAttributes attributes{};
  const bool found = cudaFuncGetAttributes(&attributes, code_kernel) == cudaSuccess;
  if (!found) cudaGetLastError();  // it is answered here
  return found;
}

const Code& code() {
  static const Code answer = [] {
    void* there = allocate(sizeof(Code));  // zero
    launch(
        "asking what the kernels were built for", 1, 1, 0, code_kernel, static_cast<Code*>(there));
    Code found;
    copy_out(&found, there, sizeof found);
    release(there);
    return found;
  }();
  return answer;
}

bool runs_hopper_kernels() { return code().for_hopper; }

}  // namespace norma::device
