#include "norma/device/timer.h"

#include "norma/device/cuda/runtime.h"

namespace norma::device {

namespace {

cudaEvent_t event_of(void* pointer) { return static_cast<cudaEvent_t>(pointer); }

}  // namespace

Timer::Timer() {
  stream();  // says so where there is no GPU
  begin_ = make_event(cudaEventDefault).release();
  end_ = make_event(cudaEventDefault).release();
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
