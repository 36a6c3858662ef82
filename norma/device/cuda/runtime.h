// The one checked door to the CUDA runtime: errors become exceptions, handles have owners.
#pragma once

#include <string_view>

#include <cuda_runtime.h>

namespace norma::device {

/// Throws an Error that names what was done, what CUDA said and, for an error that outlives the
/// call, that the process cannot use the GPU any more.
void check(cudaError_t code, std::string_view doing);

/// The stream on which everything is queued. Made at the first call, on the GPU that
/// CUDA_VISIBLE_DEVICES puts first.
cudaStream_t stream();

/// Multiprocessors of the GPU.
int multiprocessors();
/// Whether it has the matrix units and the copy engine of that generation.
bool is_hopper();

}  // namespace norma::device
