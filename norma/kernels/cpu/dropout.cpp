#include "norma/kernels/dropout.h"

#include <algorithm>

#include "norma/kernels/parallel.h"

namespace norma::kernels {

namespace {

/// The words of one group of columns: random_block (norma/base/rng.h) for 16 positions at a time,
/// round by round, so that the compiler can put the positions into vector lanes.
void group_words(RandomKey key, std::uint64_t position, std::uint32_t* __restrict words) {
  std::uint32_t* __restrict c0 = words;
  std::uint32_t* __restrict c1 = words + kDropLanes;
  std::uint32_t* __restrict c2 = words + 2 * kDropLanes;
  std::uint32_t* __restrict c3 = words + 3 * kDropLanes;
  for (Index lane = 0; lane < kDropLanes; ++lane) {
    const std::uint64_t at = position + static_cast<std::uint64_t>(lane);
    c0[lane] = static_cast<std::uint32_t>(at);
    c1[lane] = static_cast<std::uint32_t>(at >> 32);
    c2[lane] = static_cast<std::uint32_t>(key.stream);
    c3[lane] = static_cast<std::uint32_t>(key.stream >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(key.seed);
  auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (Index lane = 0; lane < kDropLanes; ++lane) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0[lane];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c2[lane];
      c0[lane] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[lane] ^ k0;
      c1[lane] = static_cast<std::uint32_t>(p1);
      c2[lane] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[lane] ^ k1;
      c3[lane] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
}

}  // namespace

void run(Cpu, const Dropout<float>& a) {
  const Index cols = a.from.cols;
  const DropRule rule = a.rule.at_step();
  const auto scale = static_cast<float>(rule.scale);
  const std::uint32_t threshold = rule.threshold;
  for_each_row(a.from.rows, cols, [&](Index r) {
    std::uint32_t words[kDropGroup];
    for (Index at = 0; at < cols; at += kDropGroup) {
      group_words(rule.key, drop_group_position(rule.first + r, cols, at), words);
      const float* __restrict from = a.from.row(r) + at;
      float* __restrict to = a.to.row(r) + at;
      const Index n = std::min(kDropGroup, cols - at);
      with_into(a.into, [&](auto add) {
        for (Index c = 0; c < n; ++c) {
          put<add>(to[c], words[c] >= threshold ? from[c] * scale : 0.0f);
        }
      });
    }
  });
}

void run(Cpu, const DropPath<float>& a) {
  const Index cols = a.from.cols;
  const DropRule rule = a.rule.at_step();
  const auto scale = static_cast<float>(rule.scale);
  for_each_row(a.from.rows, cols, [&](Index r) {
    const auto sample = static_cast<std::uint64_t>(rule.first + r / a.rows_per_sample);
    const bool kept = random_word(rule.key, sample) >= rule.threshold;
    const float* __restrict from = a.from.row(r);
    float* __restrict to = a.to.row(r);
    if (kept) {
      with_into(a.into, [&](auto add) {
        for (Index c = 0; c < cols; ++c) put<add>(to[c], from[c] * scale);
      });
    } else if (a.into == Into::set) {
      std::fill(to, to + cols, 0.0f);
    }
  });
}

}  // namespace norma::kernels
