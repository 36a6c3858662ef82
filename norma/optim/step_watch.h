// What a step finds out before the weights move: its losses and the norm of its gradient. On a GPU
// they stay there, where the weights can be guarded without the host, and travel home while later
// steps are queued.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "norma/device/device.h"
#include "norma/optim/clip.h"
#include "norma/tensor/buffer.h"

namespace norma {

struct StepFindings {
  double loss = 0;
  ClipResult clip;
};

class StepWatch {
 public:
  /// How many steps may be under way: findings of one are there until the one after the next.
  static constexpr Index kSteps = 2;

  /// `losses` of `type` for each step: those of its micro-batches, which add up to its loss.
  StepWatch(Index losses, DType type, Device device);

  /// Where a micro-batch leaves its loss.
  Tensor loss(Index micro_batch) const { return losses_.tensor.columns(micro_batch, 1); }

  /// Behind Clipper::clip(). On a GPU: from here on *stopped() is 1 where a loss or the norm is not
  /// finite, and stays 1.
  void guard(const Clipper& clipper) const;
  /// Behind guard(), outside of graphs: sends what was found in a step home.
  void send(const Clipper& clipper, Index step);
  /// What was sent; on a GPU the host waits for that step, and for nothing behind it.
  StepFindings findings(Index step) const;

  /// In device memory; null on the CPU, where who steps looks first.
  const std::int32_t* stopped() const;

 private:
  OwnedTensor losses_;
  OwnedTensor stopped_;  // of a GPU
  std::array<std::optional<device::Readout>, kSteps>
      sent_;                                // of a GPU: the clipping, then the losses
  std::array<StepFindings, kSteps> found_;  // of the CPU
};

}  // namespace norma
