// The GPU of a build without CUDA.
#include "norma/base/error.h"
#include "norma/device/device.h"
#include "norma/device/energy.h"
#include "norma/device/timer.h"

namespace norma::device {

namespace {

[[noreturn]] void refuse() {
  throw RequestError(
      "this build has no CUDA; build the preset cuda (./run build cuda), or use device cpu.");
}

}  // namespace

bool available() { return false; }
Info info() { refuse(); }
bool runs_hopper_kernels() { refuse(); }
void* allocate(std::size_t) { refuse(); }
void release(void*) noexcept {}
void synchronize() { refuse(); }
void copy_in(void*, const void*, std::size_t) { refuse(); }
void copy_out(void*, const void*, std::size_t) { refuse(); }
void copy_within(void*, const void*, std::size_t) { refuse(); }
void fill(const Matrix&, double) { refuse(); }
void put(const Matrix&, const Matrix&) { refuse(); }
void add_scaled(const Matrix&, double, const Matrix&) { refuse(); }
void scale(const Matrix&, double) { refuse(); }
bool all_finite(const Matrix&) { refuse(); }
Readout::Readout(std::size_t) { refuse(); }
Readout::~Readout() = default;
void Readout::take(std::size_t, const void*, std::size_t) { refuse(); }
std::byte* Readout::wait() const { refuse(); }
Graph::~Graph() = default;
void Graph::begin(const std::int32_t*) { refuse(); }
void Graph::abandon() noexcept {}
void Graph::end() { refuse(); }
void Graph::launch() const { refuse(); }
void Graph::clear() noexcept {}

std::optional<double> joules_used() { refuse(); }

Timer::Timer() { refuse(); }
Timer::~Timer() = default;
void Timer::start() { refuse(); }
double Timer::seconds() { refuse(); }

}  // namespace norma::device
