#include "norma/kernels/cuda/geodesic_backward.cuh"

namespace norma::kernels {

template void run(Cuda, const GeodesicBackward<Bf16>&);

}  // namespace norma::kernels
