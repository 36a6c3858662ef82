#include "norma/kernels/cuda/attention_choice.h"

#include <array>
#include <map>
#include <optional>
#include <string>

#include "norma/base/text.h"
#include "norma/device/choices.h"
#include "norma/device/device.h"
#include "norma/device/timer.h"
#include "norma/kernels/cuda/attention_key.h"
#include "norma/kernels/cuda/attention_wgmma.h"
#include "norma/kernels/cuda/cudnn_attention.h"
#include "norma/kernels/fastest.h"

namespace norma::kernels {

namespace {

struct Way {
  const char* name;
  bool (*queue)(const AttentionForward<Bf16>&);
};
constexpr std::array<Way, 2> kWays{Way{"own", wgmma_attention}, Way{"cudnn", cudnn_attention}};

std::string name_of_attention(const AttentionKey& key) {
  std::string name = say("attention|", device::info().name, "|cudnn ", cudnn_version(), "|bf16");
  for (const Index size : key) name += say(" ", size);
  return name;
}

/// The index of the way for this shape. Attention may be done more than once: it only sets.
std::size_t way_for(const AttentionForward<Bf16>& a, const AttentionKey& key) {
  constexpr std::size_t kOwn = 0;
  constexpr std::size_t kLibrarys = 1;
  const AttentionShape& s = a.shape;
  // A short one takes microseconds either way; timing it would only add noise.
  constexpr double kWorthTiming = 1e8;
  const double work = static_cast<double>(s.batch * s.heads * s.queries) *
                      static_cast<double>(s.keys * s.head_width);
  if (work < kWorthTiming) return kOwn;
  const std::string name = name_of_attention(key);
  const std::optional<std::string> kept = device::choice(name);
  for (std::size_t i = 0; i < kWays.size(); ++i) {
    if (kept && *kept == kWays[i].name) return i;
  }
  if (!kWays[kOwn].queue(a)) return kLibrarys;
  device::Timer timer;
  const std::size_t best = fastest(
      kWays.size(), [&](std::size_t i) { return kWays[i].queue(a); }, timer);
  device::choose(name, kWays[best].name);
  return best;
}

}  // namespace

bool quick_attention(const AttentionForward<Bf16>& a) {
  if (a.shape.uniform_factor == 0) return wgmma_attention(a);  // cuDNN wants one for all heads
  // Never destroyed, as the other plans.
  static auto* const kChosen = new std::map<AttentionKey, std::size_t>;
  const AttentionKey key = key_of(a);
  const auto at = kChosen->find(key);
  const std::size_t way =
      at != kChosen->end() ? at->second : kChosen->emplace(key, way_for(a, key)).first->second;
  // Rules and alignments that the key does not tell may be such that only the other one can.
  return kWays[way].queue(a) || kWays[1 - way].queue(a);
}

}  // namespace norma::kernels
