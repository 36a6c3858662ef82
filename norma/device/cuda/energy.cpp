// The counter is NVML's, which comes with the driver. It is looked up instead of linked: a build
// needs no driver.
#include "norma/device/energy.h"

#include <dlfcn.h>

#include "norma/base/clock.h"
#include "norma/device/cuda/runtime.h"

namespace norma::device {

namespace {

using Handle = void*;
constexpr int kSuccess = 0;  // NVML_SUCCESS

class Counter {
 public:
  Counter() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto start = find<int()>(library, "nvmlInit_v2");
    const auto by_bus =
        find<int(const char*, Handle*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    const auto read =
        find<int(Handle, unsigned long long*)>(library, "nvmlDeviceGetTotalEnergyConsumption");
    if (start == nullptr || by_bus == nullptr || read == nullptr || start() != kSuccess) return;
    int device = 0;
    char bus[32] = {};
    check(cudaGetDevice(&device), "asking for the GPU");
    check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "asking for the GPU's bus");
    if (by_bus(bus, &card_) == kSuccess) read_ = read;
  }
  /// In millijoules.
  std::optional<unsigned long long> now() const {
    unsigned long long millijoules = 0;
    if (read_ == nullptr || read_(card_, &millijoules) != kSuccess) return {};
    return millijoules;
  }

 private:
  template <class Function>
  static Function* find(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
  int (*read_)(Handle, unsigned long long*) = nullptr;
  Handle card_ = nullptr;
};

}  // namespace

std::optional<double> joules_used() {
  stream();  // says so where there is no GPU
  static const Counter kCounter;
  constexpr double kLongest = 0.5;  // a counter that stands still so long is no counter
  const std::optional<unsigned long long> before = kCounter.now();
  const Stopwatch watch;
  while (before && watch.seconds() < kLongest) {
    const std::optional<unsigned long long> now = kCounter.now();
    if (now && *now != *before) return 1e-3 * static_cast<double>(*now);
  }
  return {};
}

}  // namespace norma::device
