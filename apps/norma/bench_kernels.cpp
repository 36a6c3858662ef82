// norma bench kernels: every op, forward and backward, against the ceilings of this machine. The
// cases are those of the checks.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <optional>

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
#include "norma/device/device.h"

namespace norma::app {

namespace {

using checks::OpCheck;

struct Ceilings {
  double gemm_gflops;
  double copy_gbs;
  bool gpu;
};

struct Timing {
  double forward_s;
  double backward_s;
  double forward_bytes;   // every input read once, every output written once
  double backward_bytes;  // inputs and output gradients read, input gradients written
  std::optional<double> forward_j;
  std::optional<double> backward_j;
};

/// Adds the bytes of one op's tensors; its outputs are known after a forward pass.
void count_bytes(Timing& timing, const OpCheck& check, const checks::Instance& at) {
  for (std::size_t i = 0; i < at.input_count(); ++i) {
    const auto bytes = static_cast<double>(at.input(i).bytes());
    timing.forward_bytes += bytes;
    timing.backward_bytes += bytes;
    if (!at.differentiable(i)) continue;
    const auto grad_bytes = static_cast<double>(at.grad(i).bytes());
    timing.backward_bytes += grad_bytes;
    if (check.gradients_in_forward) timing.forward_bytes += grad_bytes;
  }
  timing.forward_bytes += at.output_bytes();
  timing.backward_bytes += at.output_bytes();
}

Timing time_on_cpu(const OpCheck& check, const Shape& size, const std::string& variant) {
  const checks::Problem problem = check.make(size, variant);
  checks::Instance at(problem, {.size = size, .variant = variant}, {.dtype = DType::f32});
  Timing timing{};
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
  count_bytes(timing, check, at);
  timing.forward_s = median(forward);
  timing.backward_s = median(backward);
  return timing;
}

/// `sustained`: seconds of each pass, or 0 for a short run.
Timing time_on_gpu(const OpCheck& check,
                   const Shape& size,
                   const std::string& variant,
                   double sustained) {
  constexpr Index kDrawn = Index{1} << 20;
  const checks::Problem problem = check.make(size, variant);
  checks::Instance at(problem,
                      {.size = size, .variant = variant},
                      {.dtype = DType::bf16,
                       .device = {DeviceKind::cuda, 0},
                       .grid = DType::bf16,
                       .drawn = kDrawn});
  Timing timing{};
  const auto use_of = [&](const std::function<void()>& pass) {
    return sustained > 0 ? checks::gpu_sustained(pass, sustained)
                         : checks::SustainedUse{.seconds = checks::gpu_seconds(pass), .joules = {}};
  };
  const checks::SustainedUse forward = use_of([&] { at.pass_forward(problem.forward); });
  const checks::SustainedUse backward = use_of([&] { at.pass_backward(); });
  timing.forward_s = forward.seconds;
  timing.forward_j = forward.joules;
  timing.backward_s = backward.seconds;
  timing.backward_j = backward.joules;
  count_bytes(timing, check, at);
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
  const double back_work = arithmetic ? check.backward_flops * work : timing.backward_bytes;
  const double ceiling = (arithmetic ? ceilings.gemm_gflops : ceilings.copy_gbs) * 1e9;
  const bool tera = arithmetic && ceilings.gpu;
  const char* unit = tera ? "TFLOP/s" : arithmetic ? "GFLOP/s" : "GB/s";
  const double scale = tera ? 1e-12 : 1e-9;
  const double forward = work / timing.forward_s * scale;
  const double backward = back_work / timing.backward_s * scale;
  if (json) {
    JsonLine line;
    line.add("op", check.op)
        .add("variant", variant)
        .add("size", size.text())
        .add("device", ceilings.gpu ? "cuda" : "cpu")
        .add("unit", unit)
        .add("forward_us", timing.forward_s * 1e6)
        .add("forward", forward)
        .add("forward_share", forward / scale / ceiling)
        .add("backward_us", timing.backward_s * 1e6)
        .add("backward", backward)
        .add("backward_share", backward / scale / ceiling);
    if (timing.forward_j) line.add("forward_mj", *timing.forward_j * 1e3);
    if (timing.backward_j) line.add("backward_mj", *timing.backward_j * 1e3);
    std::puts(line.text().c_str());
    return;
  }
  const auto energy = [](const std::optional<double>& joules) {
    char text[32] = "";
    if (joules) std::snprintf(text, sizeof text, " %8.2f mJ", *joules * 1e3);
    return std::string(text);
  };
  std::printf("%-16s %-14s %-20s %9.1f us %7.1f %3.0f%%%s  %9.1f us %7.1f %3.0f%%%s  %s\n",
              check.op.c_str(),
              variant.c_str(),
              size.text().c_str(),
              timing.forward_s * 1e6,
              forward,
              100 * forward / scale / ceiling,
              energy(timing.forward_j).c_str(),
              timing.backward_s * 1e6,
              backward,
              100 * backward / scale / ceiling,
              energy(timing.backward_j).c_str(),
              unit);
}

}  // namespace

int run_bench_kernels(const BenchKernelsRequest& request) {
  const bool gpu = request.device == "cuda";
  if (!gpu && request.device != "cpu") {
    throw RequestError(say("bench: device must be cpu or cuda, got ", request.device, "."));
  }
  if (!gpu && request.sustained > 0) {
    throw RequestError("bench: --sustained is for a GPU; add --device cuda.");
  }
  if (request.sustained > 0 && request.sustained < 1) {
    throw RequestError(
        say("bench: --sustained wants a second or more, got ", request.sustained, "."));
  }
  if (request.threads > 0) set_thread_count(request.threads);
  std::vector<const OpCheck*> chosen;
  if (request.op.empty()) {
    for (const OpCheck& check : checks::registry()) chosen.push_back(&check);
  } else {
    chosen.push_back(&checks::find_check(request.op));
  }
  const Ceilings ceilings =
      gpu ? Ceilings{checks::measure_gpu_gemm_peak(), checks::measure_gpu_copy_bandwidth(), true}
          : Ceilings{checks::measure_gemm_peak(), checks::measure_copy_bandwidth(), false};
  if (!request.json) {
    std::printf(
        "%s; ceilings: products %.0f GFLOP/s, copy %.1f GB/s. A share above 100%% "
        "means the tensors stayed in cache.\n",
        gpu ? say(device::info().name, ", bf16").c_str() : say(thread_count(), " threads").c_str(),
        ceilings.gemm_gflops,
        ceilings.copy_gbs);
    std::printf("%-16s %-14s %-20s %26s  %26s\n", "op", "variant", "size", "forward", "backward");
  }
  for (const OpCheck* check : chosen) {
    for (const Shape& size : gpu ? check->gpu_bench_sizes : check->bench_sizes) {
      const std::string& variant = check->variants.front();
      const Timing timing = gpu ? time_on_gpu(*check, size, variant, request.sustained)
                                : time_on_cpu(*check, size, variant);
      report(*check, size, variant, timing, ceilings, request.json);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace norma::app
