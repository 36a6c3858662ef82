// The one checked door to the CUDA runtime: errors become exceptions, handles have owners.
#pragma once

#include <memory>
#include <string_view>

#include <cuda_runtime.h>

namespace norma::device {

/// Throws an Error that names what was done, what CUDA said and, for an error that outlives the
/// call, that the process cannot use the GPU any more.
void check(cudaError_t code, std::string_view doing);

/// The stream on which everything is queued, but for the first half of copies to the GPU. Made at
/// the first call, on the GPU that CUDA_VISIBLE_DEVICES puts first.
cudaStream_t stream();

/// Frees an event when it goes.
struct FreeEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, FreeEvent>;
/// `flags` as cudaEventCreateWithFlags takes them.
Event make_event(unsigned flags);

/// Multiprocessors of the GPU.
int multiprocessors();

/// What the kernels that this GPU runs were built for: the card alone does not tell, for it may run
/// those of an older one.
struct Code {
  int architecture = 0;     // 900 for Hopper
  bool for_hopper = false;  // with its matrix units and its copy engine, which no other card has
};
const Code& code();
/// Whether there are any.
bool has_code();

}  // namespace norma::device
