#include "norma/kernels/cuda/geodesic_backward.cuh"

namespace norma::kernels {

template void run(Cuda, const GeodesicBackward<float>&);

}  // namespace norma::kernels
