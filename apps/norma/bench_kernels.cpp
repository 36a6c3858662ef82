// norma bench kernels: every op, forward and backward, against the ceilings of this machine. The
// cases are those of the checks.
#include <algorithm>
#include <cstdio>
#include <deque>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/median.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/checks/instance.h"
#include "norma/checks/registry.h"

namespace norma::app {

namespace {

using checks::OpCheck;

struct Ceilings {
  double gemm_gflops;
  double copy_gbs;
};

struct Timing {
  double forward_s;
  double backward_s;
  double forward_bytes;   // every input read once, every output written once
  double backward_bytes;  // inputs and output gradients read, input gradients written
};

Timing time_case(const OpCheck& check, const Shape& size, const std::string& variant) {
  const checks::Problem problem = check.make(size, variant);
  checks::Instance at(problem, {.size = size, .variant = variant}, {.dtype = DType::f32});
  Timing timing{};
  for (std::size_t i = 0; i < at.input_count(); ++i) {
    const auto bytes = static_cast<double>(at.input(i).bytes());
    timing.forward_bytes += bytes;
    timing.backward_bytes += bytes * (at.differentiable(i) ? 2 : 1);
  }
  std::vector<double> forward;
  std::vector<double> backward;
  const Stopwatch total;
  while (forward.size() < 5 || (total.seconds() < 0.4 && forward.size() < 200)) {
    at.clear_grads();
    forward.push_back(at.timed_forward(problem.forward));
    const Stopwatch watch;
    at.backward(false);
    backward.push_back(watch.seconds());
  }
  for (const OwnedTensor& output : at.outputs()) {
    timing.forward_bytes += static_cast<double>(output.tensor.bytes());
    timing.backward_bytes += static_cast<double>(output.tensor.bytes());
  }
  timing.forward_s = median(forward);
  timing.backward_s = median(backward);
  return timing;
}

void report(const OpCheck& check,
            const Shape& size,
            const std::string& variant,
            const Timing& timing,
            const Ceilings& ceilings,
            bool json) {
  const bool arithmetic = static_cast<bool>(check.flops);
  const double work = arithmetic ? check.flops(size) : timing.forward_bytes;
  const double back_work = arithmetic ? 2 * work : timing.backward_bytes;
  const double ceiling = arithmetic ? ceilings.gemm_gflops : ceilings.copy_gbs;
  const double forward = work / timing.forward_s * 1e-9;
  const double backward = back_work / timing.backward_s * 1e-9;
  if (json) {
    JsonLine line;
    line.add("op", check.op)
        .add("variant", variant)
        .add("size", size.text())
        .add("unit", arithmetic ? "GFLOP/s" : "GB/s")
        .add("forward_us", timing.forward_s * 1e6)
        .add("forward", forward)
        .add("forward_share", forward / ceiling)
        .add("backward_us", timing.backward_s * 1e6)
        .add("backward", backward)
        .add("backward_share", backward / ceiling);
    std::puts(line.text().c_str());
    return;
  }
  std::printf("%-16s %-14s %-20s %9.1f us %7.1f %3.0f%%  %9.1f us %7.1f %3.0f%%  %s\n",
              check.op.c_str(),
              variant.c_str(),
              size.text().c_str(),
              timing.forward_s * 1e6,
              forward,
              100 * forward / ceiling,
              timing.backward_s * 1e6,
              backward,
              100 * backward / ceiling,
              arithmetic ? "GFLOP/s" : "GB/s");
}

}  // namespace

int run_bench_kernels(const BenchKernelsRequest& request) {
  if (request.device != "cpu") {
    throw RequestError(say("bench: this build has the device cpu only, got ", request.device, "."));
  }
  if (request.threads > 0) set_thread_count(request.threads);
  std::vector<const OpCheck*> chosen;
  if (request.op.empty()) {
    for (const OpCheck& check : checks::registry()) chosen.push_back(&check);
  } else {
    chosen.push_back(&checks::find_check(request.op));
  }
  const Ceilings ceilings{checks::measure_gemm_peak(), checks::measure_copy_bandwidth()};
  if (!request.json) {
    std::printf(
        "%d threads; ceilings: products %.0f GFLOP/s, copy %.1f GB/s. A share above 100%% "
        "means the tensors stayed in cache.\n",
        thread_count(),
        ceilings.gemm_gflops,
        ceilings.copy_gbs);
    std::printf("%-16s %-14s %-20s %26s  %26s\n", "op", "variant", "size", "forward", "backward");
  }
  for (const OpCheck* check : chosen) {
    for (const Shape& size : check->bench_sizes) {
      const std::string& variant = check->variants.front();
      report(*check, size, variant, time_case(*check, size, variant), ceilings, request.json);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace norma::app
