// What the GPU has drawn. A card at its power limit slows all kernels down alike, so there joules
// say more about a kernel than its time in a short run does.
#pragma once

#include <optional>

namespace norma::device {

/// Joules since the driver was loaded, of the whole card, right after its counter moved (which it
/// does every few hundredths of a second, so this waits as long). What lies between two answers
/// holds such a wait too, and should take a second or more. Nothing where the card or its driver
/// has no such counter. Throws RequestError with the reason where there is no GPU.
std::optional<double> joules_used();

/// What the card draws from here on.
class EnergyMeter {
 public:
  /// Joules up to here; as joules_used().
  std::optional<double> joules() const {
    const std::optional<double> now = joules_used();
    if (!before_ || !now) return {};
    return *now - *before_;
  }

 private:
  std::optional<double> before_ = joules_used();
};

}  // namespace norma::device
