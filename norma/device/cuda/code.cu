#include "norma/base/error.h"
#include "norma/base/text.h"
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

void require_code(const cudaDeviceProp& card) {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, code_kernel) == cudaSuccess) return;
  cudaGetLastError();  // it is answered here
  throw RequestError(say("this build has no kernels for ",
                         card.name,
                         ", compute capability ",
                         card.major,
                         ".",
                         card.minor,
                         "; build with -DCMAKE_CUDA_ARCHITECTURES=",
                         card.major,
                         card.minor,
                         card.major == 9 ? "a" : "",
                         ", or use device cpu."));
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

}  // namespace norma::device
