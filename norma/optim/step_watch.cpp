#include "norma/optim/step_watch.h"

#include <cstring>

#include "norma/kernels/step_guard.h"
#include "norma/kernels/sum_work.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

std::size_t place_of(Index step) { return static_cast<std::size_t>(step % StepWatch::kSteps); }

double sum_of(const Tensor& losses) {
  double sum = 0;
  for (Index i = 0; i < losses.count(); ++i) sum += value_at(losses, 0, i);
  return sum;
}

}  // namespace

StepWatch::StepWatch(Index losses, DType type, Device device) : losses_({losses}, type, device) {
  if (device.kind == DeviceKind::cpu) return;
  stopped_ = OwnedTensor({1}, DType::i32, device);
  if (planning()) return;
  for (auto& each : sent_) each.emplace(sizeof(kernels::ClipState) + losses_.tensor.bytes());
}

const std::int32_t* StepWatch::stopped() const {
  return stopped_.tensor ? stopped_.tensor.as<const std::int32_t>() : nullptr;
}

void StepWatch::guard([[maybe_unused]] const Clipper& clipper) const {
  if (!stopped_.tensor || planning()) return;
  if constexpr (device::kBuiltWithCuda) {
    kernels::run(kernels::Cuda{},
                 kernels::StepGuard{.losses = losses_.tensor.as<const float>(),
                                    .count = losses_.tensor.count(),
                                    .norm = &clipper.found()->norm,
                                    .stopped = stopped_.tensor.as<std::int32_t>()});
  }
}

void StepWatch::send(const Clipper& clipper, Index step) {
  if (auto& home = sent_[place_of(step)]) {
    home->take(0, clipper.found(), sizeof(kernels::ClipState));
    home->take(sizeof(kernels::ClipState), losses_.tensor.data, losses_.tensor.bytes());
  } else {
    found_[place_of(step)] = {.loss = sum_of(losses_.tensor), .clip = clipper.result()};
  }
}

StepFindings StepWatch::findings(Index step) const {
  const auto& home = sent_[place_of(step)];
  if (!home) return found_[place_of(step)];
  std::byte* const found = home->wait();
  kernels::ClipState clip{};
  std::memcpy(&clip, found, sizeof clip);
  const Tensor losses(found + sizeof clip, losses_.tensor.shape, losses_.tensor.dtype);
  return {.loss = sum_of(losses), .clip = ClipResult(clip)};
}

}  // namespace norma
