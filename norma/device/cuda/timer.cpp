#include "norma/device/timer.h"

#include "norma/device/cuda/runtime.h"

namespace norma::device {

namespace {

void* make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return event;
}
cudaEvent_t event_of(void* pointer) { return static_cast<cudaEvent_t>(pointer); }

}  // namespace

Timer::Timer() {
  stream();  // says so where there is no GPU
  begin_ = make_event();
  end_ = make_event();
}

Timer::~Timer() {
  cudaEventDestroy(event_of(begin_));
  cudaEventDestroy(event_of(end_));
}

void Timer::start() { check(cudaEventRecord(event_of(begin_), stream()), "timing"); }

double Timer::seconds() {
  check(cudaEventRecord(event_of(end_), stream()), "timing");
  check(cudaEventSynchronize(event_of(end_)), "timing");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, event_of(begin_), event_of(end_)), "timing");
  return 1e-3 * static_cast<double>(ms);
}

}  // namespace norma::device
