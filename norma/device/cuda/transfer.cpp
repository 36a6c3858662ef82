// Copies between the host and the GPU. A copy of the host's memory as it lies there is staged by
// the driver, which may wait for what is queued before; so small ones, which every step has, go
// through memory of our own that the GPU reaches by itself.
#include <array>
#include <cstring>
#include <utility>

#include "norma/device/cuda/runtime.h"
#include "norma/device/device.h"

namespace norma::device {

namespace {

/// A place that copies go through: on the host, then on the GPU. It grows with what is copied.
class Stage {
 public:
  void copy(void* to, const void* host, std::size_t bytes, cudaStream_t way) {
    if (left_) check(cudaEventSynchronize(left_.get()), kDoing);
    if (bytes > bytes_) grow(bytes);
    std::memcpy(host_, host, bytes);
    check(cudaMemcpyAsync(there_, host_, bytes, cudaMemcpyHostToDevice, way), kDoing);
    check(cudaEventRecord(arrived_.get(), way), kDoing);
    check(cudaStreamWaitEvent(stream(), arrived_.get(), 0), kDoing);
    copy_within(to, there_, bytes);
    check(cudaEventRecord(left_.get(), stream()), kDoing);
  }

 private:
  static constexpr const char* kDoing = "copying to the GPU";

  void grow(std::size_t bytes) {
    if (!arrived_) arrived_ = make_event(cudaEventDisableTiming);
    if (!left_) left_ = make_event(cudaEventDisableTiming);
    bytes_ = 0;
    cudaFreeHost(std::exchange(host_, nullptr));
    release(std::exchange(there_, nullptr));
    check(cudaMallocHost(&host_, bytes), kDoing);
    there_ = allocate(bytes);
    synchronize();  // it has been cleared
    bytes_ = bytes;
  }

  void* host_ = nullptr;
  void* there_ = nullptr;
  std::size_t bytes_ = 0;
  Event arrived_;  // there
  Event left_;     // to where it belongs
};

/// They are used in turn. A step has two copies; those of the next may be on their way before the
/// last of this one has left.
class Stages {
 public:
  Stages() { check(cudaStreamCreateWithFlags(&way_, cudaStreamNonBlocking), "making a stream"); }
  void copy(void* to, const void* host, std::size_t bytes) {
    stages_[next_].copy(to, host, bytes, way_);
    next_ = (next_ + 1) % stages_.size();
  }

 private:
  cudaStream_t way_ = nullptr;
  std::array<Stage, 4> stages_;
  std::size_t next_ = 0;
};

}  // namespace

void copy_in(void* to, const void* host, std::size_t bytes) {
  if (bytes <= kMostStaged) {
    static auto* const kStages = new Stages;  // never destroyed: the driver may be gone
    return kStages->copy(to, host, bytes);
  }
  // From pageable memory: the call returns when the bytes are staged.
  check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream()), "copying to the GPU");
}

void copy_out(void* host, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream()),
        "copying from the GPU");
  synchronize();
}

Readout::Readout(std::size_t bytes) {
  stream();  // says so where there is no GPU
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "taking memory for copies");
  memory_ = static_cast<std::byte*>(memory);
  taken_ = make_event(cudaEventDisableTiming).release();
}

Readout::~Readout() {
  cudaEventDestroy(static_cast<cudaEvent_t>(taken_));
  cudaFreeHost(memory_);
}

void Readout::take(std::size_t at, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(memory_ + at, from, bytes, cudaMemcpyDeviceToHost, stream()),
        "copying from the GPU");
  check(cudaEventRecord(static_cast<cudaEvent_t>(taken_), stream()), "copying from the GPU");
}

std::byte* Readout::wait() const {
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(taken_)), "waiting for the GPU");
  return memory_;
}

}  // namespace norma::device
