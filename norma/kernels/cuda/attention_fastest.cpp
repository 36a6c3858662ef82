#include "norma/kernels/cuda/attention_fastest.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "norma/base/text.h"
#include "norma/device/choices.h"
#include "norma/device/device.h"
#include "norma/device/timer.h"
#include "norma/kernels/cuda/attention_wgmma.h"
#include "norma/kernels/cuda/cudnn_attention.h"

namespace norma::kernels {

namespace {

constexpr const char* kOurs = "wgmma";
constexpr const char* kTheirs = "cudnn";

/// Seconds of one gradient, the best of a few.
template <class F>
double timed(F&& gradient) {
  constexpr int kRepeats = 3;
  device::Timer timer;
  gradient();  // warms up
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    timer.start();
    gradient();
    const double seconds = timer.seconds();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

/// Where both can: cuDNN takes only gradients that are set, so doing it again does no harm.
bool ours_is_faster(const AttentionBackward<Bf16>& a) {
  const AttentionShape& s = a.shape;
  std::string name = say("attention's gradient|", device::info().name, "|", s.causal ? "c" : "f");
  for (const Index size : {s.batch, s.queries, s.heads, s.kv_heads, s.head_width}) {
    name += say(" ", size);
  }
  const std::optional<std::string> kept = device::choice(name);
  if (kept) return *kept == kOurs;
  const double theirs = timed([&] { cudnn_attention(a); });
  const double ours = timed([&] { wgmma_attention(a); });
  device::choose(name, ours <= theirs ? kOurs : kTheirs);
  return ours <= theirs;
}

}  // namespace

bool fastest_attention(const AttentionBackward<Bf16>& a) {
  using Key = std::array<Index, 6>;
  static auto* const kAnswers = new std::map<Key, bool>;
  const bool all_set = a.dq && a.dk && a.dv && a.dq_into == Into::set && a.dk_into == Into::set &&
                       a.dv_into == Into::set && a.dhead_factor == nullptr;
  if (!all_set) return wgmma_attention(a);
  const AttentionShape& s = a.shape;
  const Key key{s.batch, s.queries, s.heads, s.kv_heads, s.head_width, s.causal ? 1 : 0};
  const auto known = kAnswers->find(key);
  if (known != kAnswers->end()) {
    if (known->second) return wgmma_attention(a) || cudnn_attention(a);
    return cudnn_attention(a) || wgmma_attention(a);
  }
  // Rules that one of them refuses are not remembered: the other may share the shape.
  if (!cudnn_attention(a)) return wgmma_attention(a);
  if (!wgmma_attention(a)) return cudnn_attention(a);
  const bool ours = kAnswers->emplace(key, ours_is_faster(a)).first->second;
  return ours ? wgmma_attention(a) : cudnn_attention(a);
}

}  // namespace norma::kernels
