#include "norma/device/cuda/runtime.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"

namespace norma::device {

void check(cudaError_t code, std::string_view doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a library that looks after its own launches would report this one
  // Sticky errors come back again; while a graph is taken down nobody may wait for one.
  const cudaError_t later = cudaDeviceSynchronize();
  const bool lost = later != cudaSuccess && later != cudaErrorStreamCaptureUnsupported;
  throw Error(say("CUDA: ",
                  doing,
                  " failed: ",
                  cudaGetErrorString(code),
                  " (",
                  cudaGetErrorName(code),
                  ").",
                  lost ? " The GPU cannot be used by this process any more." : ""));
}

namespace {

struct Context {
  cudaStream_t queue = nullptr;
  cudaDeviceProp properties{};

  Context() {
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found != cudaSuccess || count == 0) {
      throw RequestError(say("there is no GPU that CUDA can use (",
                             found != cudaSuccess ? cudaGetErrorString(found) : "none found",
                             "); use device cpu."));
    }
    check(cudaSetDevice(0), "choosing the GPU");
    check(cudaGetDeviceProperties(&properties, 0), "asking what the GPU is");
    if (!has_code()) {
      throw RequestError(say("this build has no kernels for ",
                             properties.name,
                             ", compute capability ",
                             properties.major,
                             ".",
                             properties.minor,
                             "; build with CMAKE_CUDA_ARCHITECTURES for it (80 and later), or use "
                             "device cpu."));
    }
    check(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), "making a stream");
  }
};

/// Never destroyed: the driver may be gone before static objects are.
const Context& context() {
  static const Context* const kContext = new Context;
  return *kContext;
}

}  // namespace

cudaStream_t stream() { return context().queue; }

Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "making an event");
  return Event(event);
}

int multiprocessors() { return context().properties.multiProcessorCount; }

bool available() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 && has_code();
}

Info info() {
  Info info;
  info.name = context().properties.name;
  info.multiprocessors = multiprocessors();
  check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "asking for the GPU's memory");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver");
  info.driver = say(driver / 1000, ".", driver % 1000 / 10);
  return info;
}

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  stream();
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    cudaGetLastError();  // it is answered here
    const Info now = info();
    throw MemoryError(
        say("wanted ",
            human_bytes(static_cast<double>(bytes)),
            " on the GPU, which has ",
            human_bytes(static_cast<double>(now.free_bytes)),
            " free of ",
            human_bytes(static_cast<double>(now.total_bytes)),
            "; use a smaller train.micro_batch, train.recompute=cheap or blocks, a smaller "
            "model.context or a smaller model."));
  }
  check(cudaMemsetAsync(memory, 0, bytes, stream()), "clearing memory");
  return memory;
}

void release(void* memory) noexcept { cudaFree(memory); }

void synchronize() { check(cudaStreamSynchronize(stream()), "waiting for the GPU"); }

void copy_within(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copying on the GPU");
}

}  // namespace norma::device
