#include "norma/checks/ceilings.h"

#include <algorithm>
#include <array>

#include "norma/base/clock.h"
#include "norma/base/median.h"
#include "norma/base/rng.h"
#include "norma/device/device.h"
#include "norma/device/energy.h"
#include "norma/device/timer.h"
#include "norma/kernels/gemm.h"
#include "norma/ops/dispatch.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma::checks {

namespace {

/// Seconds of the quickest of several calls.
template <class F>
double best_seconds(int calls, F&& f) {
  f();
  double best = 1e30;
  for (int i = 0; i < calls; ++i) {
    const Stopwatch watch;
    f();
    best = std::min(best, watch.seconds());
  }
  return best;
}

double gemm_gflops(Index m, Index n, Index k) {
  const OwnedTensor a({m, k}, DType::f32);
  const OwnedTensor b({k, n}, DType::f32);
  const OwnedTensor c({m, n}, DType::f32);
  fill(a.tensor, 0.5);
  fill(b.tensor, 0.25);
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const double seconds = best_seconds(12, [&] {
    kernels::run(kernels::Cpu{},
                 kernels::Gemm<float>{.m = m,
                                      .n = n,
                                      .k = k,
                                      .a = a.tensor.as<const float>(),
                                      .lda = k,
                                      .b = b.tensor.as<const float>(),
                                      .ldb = n,
                                      .c = c.tensor.as<float>(),
                                      .ldc = n});
  });
  return flops / seconds * 1e-9;
}

/// Normal numbers, the same block over and over. On constant ones the card draws less power and is
/// faster than it will ever be.
void draw_on_gpu(const OwnedTensor& to, std::uint64_t stream) {
  constexpr Index kBlock = Index{1} << 20;
  const OwnedTensor block({kBlock}, to.tensor.dtype);
  for (Index i = 0; i < kBlock; ++i) {
    set_value(block.tensor, 0, i, normal_at({1, stream}, static_cast<std::uint64_t>(i)));
  }
  const std::size_t bytes = block.buffer.bytes();
  device::copy_in(to.buffer.data(), block.buffer.data(), std::min(bytes, to.buffer.bytes()));
  for (std::size_t at = bytes; at < to.buffer.bytes(); at += bytes) {
    device::copy_within(
        to.buffer.data() + at, to.buffer.data(), std::min(bytes, to.buffer.bytes() - at));
  }
}

}  // namespace

double measure_gemm_peak() {
  struct Product {
    Index m, n, k;
  };
  constexpr std::array kProducts = {Product{768, 768, 768},
                                    Product{1024, 1024, 1024},
                                    Product{2048, 1536, 384},
                                    Product{1536, 1536, 1536}};
  double best = 0;
  for (const Product& p : kProducts) best = std::max(best, gemm_gflops(p.m, p.n, p.k));
  return best;
}

double gpu_seconds(const std::function<void()>& f) {
  constexpr int kStretches = 7;
  constexpr double kStretchSeconds = 2e-3;
  constexpr double kMostCalls = 100;
  device::Timer timer;
  f();  // chooses algorithms and grows memory
  f();
  timer.start();
  f();
  const double once = std::max(timer.seconds(), 1e-7);
  const int calls = static_cast<int>(std::clamp(kStretchSeconds / once, 2.0, kMostCalls));
  std::vector<double> seconds;
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    f();  // the GPU is busy while the host queues what is timed
    timer.start();
    for (int i = 0; i < calls; ++i) f();
    seconds.push_back(timer.seconds() / calls);
  }
  return median(seconds);
}

SustainedUse gpu_sustained(const std::function<void()>& f, double seconds) {
  constexpr double kStretchSeconds = 20e-3;  // between two looks at the clock
  constexpr double kWarmSeconds = 0.5;       // until the card has settled on a clock
  const double once = gpu_seconds(f);
  const int calls = static_cast<int>(std::clamp(kStretchSeconds / once, 1.0, 1e4));
  const auto keep_up = [&](double least) {
    Index done = 0;
    const Stopwatch watch;
    do {
      for (int i = 0; i < calls; ++i) f();
      device::synchronize();
      done += calls;
    } while (watch.seconds() < least);
    return done;
  };
  keep_up(kWarmSeconds);
  const device::EnergyMeter meter;
  const Stopwatch watch;
  const auto done = static_cast<double>(keep_up(seconds));
  SustainedUse each{.seconds = watch.seconds() / done, .joules = meter.joules()};
  if (each.joules) *each.joules /= done;
  return each;
}

double measure_gpu_gemm_peak() {
  constexpr Index kSide = 8192;
  const Device gpu{DeviceKind::cuda, 0};
  const OwnedTensor a({kSide, kSide}, DType::bf16, gpu);
  const OwnedTensor b({kSide, kSide}, DType::bf16, gpu);
  const OwnedTensor c({kSide, kSide}, DType::bf16, gpu);
  draw_on_gpu(a, 1);
  draw_on_gpu(b, 2);
  const double seconds = gpu_seconds([&] {
    dispatch("product", a.tensor, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::Gemm<T>{.trans_b = true,
                                    .m = kSide,
                                    .n = kSide,
                                    .k = kSide,
                                    .a = a.tensor.as<const T>(),
                                    .lda = kSide,
                                    .b = b.tensor.as<const T>(),
                                    .ldb = kSide,
                                    .c = c.tensor.as<T>(),
                                    .ldc = kSide});
    });
  });
  return 2.0 * kSide * kSide * kSide / seconds * 1e-9;
}

double measure_gpu_copy_bandwidth() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;  // each way: far beyond the cache
  const Buffer from(kBytes, {DeviceKind::cuda, 0});
  const Buffer to(kBytes, {DeviceKind::cuda, 0});
  const double seconds = gpu_seconds([&] { device::copy_within(to.data(), from.data(), kBytes); });
  return 2.0 * static_cast<double>(kBytes) / seconds * 1e-9;
}

double measure_copy_bandwidth() {
  const Shape shape{Index{1} << 25};  // 128 MiB each way: beyond every cache
  const OwnedTensor from(shape, DType::f32);
  const OwnedTensor to(shape, DType::f32);
  const double seconds = best_seconds(6, [&] { copy(from.tensor, to.tensor); });
  return 2.0 * static_cast<double>(from.tensor.bytes()) / seconds * 1e-9;
}

}  // namespace norma::checks
