#include "norma/generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"

namespace norma {

namespace {

// Streams of a sampler's seed, one a sample; training draws from others.
constexpr std::uint64_t kSampleStreams = std::uint64_t{0x5A3B1E} << 40;

/// Uniform in [0, 1) with 53 bits.
double uniform_at(std::uint64_t seed, DrawPlace place) {
  const RandomBlock block =
      random_block({seed, kSampleStreams + static_cast<std::uint64_t>(place.sample)},
                   static_cast<std::uint64_t>(place.token));
  const auto high = static_cast<double>(block[0] >> 5);
  const auto low = static_cast<double>(block[1] >> 6);
  return (high * 67108864.0 + low) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const SamplingSpec& spec) : spec_(spec) {
  if (!(spec.temperature >= 0 && std::isfinite(spec.temperature))) {
    throw RequestError(say(
        "temperature must be 0 (always the likeliest) or positive, got ", spec.temperature, "."));
  }
  if (spec.top_k < 0)
    throw RequestError(say("top_k must be 0 (all) or positive, got ", spec.top_k, "."));
  if (!(spec.top_p > 0 && spec.top_p <= 1)) {
    throw RequestError(say("top_p must lie above 0 and not above 1 (all), got ", spec.top_p, "."));
  }
}

void Sampler::load(const Tensor& logits, Index row, Index choices) {
  candidates_.clear();
  candidates_.reserve(static_cast<std::size_t>(choices));
  const auto take = [&](const auto* values) {
    for (Index v = 0; v < choices; ++v) {
      const auto logit = static_cast<double>(values[v]);
      if (std::isnan(logit)) {
        throw Error(say("the model gives NaN for token ", v, "; its weights are damaged."));
      }
      candidates_.push_back({logit, 0, static_cast<std::int32_t>(v)});
    }
  };
  if (logits.dtype == DType::f64) {
    take(logits.as<const double>() + row * logits.row_stride);
  } else {
    take(logits.as<const float>() + row * logits.row_stride);
  }
}

void Sampler::keep_top_k() {
  const auto count = static_cast<std::size_t>(spec_.top_k);
  if (count == 0 || count >= candidates_.size()) return;
  const auto ranks_before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::nth_element(candidates_.begin(),
                   candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1,
                   candidates_.end(),
                   ranks_before);
  candidates_.resize(count);
}

void Sampler::keep_top_p() {
  if (spec_.top_p == 1) return;
  double wanted = 0;
  for (const Candidate& one : candidates_) wanted += one.weight;
  wanted *= spec_.top_p;
  // A heap gives the largest one by one: mostly few are needed of many.
  const auto ranks_behind = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
  };
  std::make_heap(candidates_.begin(), candidates_.end(), ranks_behind);
  auto rest = candidates_.end();
  for (double share = 0; share < wanted && rest != candidates_.begin();) {
    std::pop_heap(candidates_.begin(), rest, ranks_behind);
    share += (--rest)->weight;
  }
  candidates_.erase(candidates_.begin(), rest);
}

std::int32_t Sampler::draw(const Tensor& logits, Index row, Index choices, DrawPlace place) {
  load(logits, row, choices);
  const auto largest = std::max_element(
      candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
        return a.logit < b.logit;
      });
  if (largest == candidates_.end() || !std::isfinite(largest->logit)) {
    throw Error("the model's largest logit is not a finite number; its weights are damaged.");
  }
  if (spec_.temperature == 0) return largest->id;
  const double most = largest->logit;
  keep_top_k();
  for (Candidate& one : candidates_) one.weight = std::exp((one.logit - most) / spec_.temperature);
  keep_top_p();
  // In the order of ids: the sum must not depend on how the set was found.
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.id < b.id;
  });
  double total = 0;
  for (const Candidate& one : candidates_) total += one.weight;
  const double place_in_total = uniform_at(spec_.seed, place) * total;
  double passed = 0;
  std::int32_t chosen = candidates_.front().id;
  for (const Candidate& one : candidates_) {
    if (one.weight > 0) chosen = one.id;
    passed += one.weight;
    if (passed > place_in_total) break;
  }
  return chosen;
}

}  // namespace norma
