// What kernels' pages ask of the device room, which in this build has no GPU.
#include "norma/device/cuda/runtime.h"

namespace norma::device {

int multiprocessors() { return 2; }  // so that each has several tiles

}  // namespace norma::device
