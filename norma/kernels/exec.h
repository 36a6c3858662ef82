// Who computes. Every kernel is a function `run(who, arguments)`, overloaded on the first:
//   Ref  plain loops in f32 or f64, one thread: the definition of the op
//   Cpu  f32, OpenMP and SIMD
//   CpuThread  the same on the calling thread alone, for use inside a parallel loop
//   Cuda f32 and bf16 on the current GPU, in the order of calls (builds with CUDA only)
// An op page is written once; ops/dispatch.h picks the overload from the tensor's device and type.
#pragma once

#include <type_traits>

namespace norma::kernels {

struct Ref {};
struct Cpu {};
struct CpuThread {};
struct Cuda {};

/// Who does what is too little for threads: the plain loops, where the numbers can be reached.
constexpr Ref few(Ref) { return {}; }
constexpr Ref few(Cpu) { return {}; }
constexpr Cuda few(Cuda) { return {}; }

/// Kernels that do at once what others do one after the other, for Cuda alone: run() says whether
/// it could, and where not, nothing has happened and the others do the same.
template <class Who, class Fused>
bool run_fused(Who who, const Fused& a) {
  if constexpr (std::is_same_v<Who, Cuda>) {
    return run(who, a);
  } else {
    return false;
  }
}

}  // namespace norma::kernels
