// Scaled dot-product attention with every logit rule of the literature that is a factor or a cap.
#pragma once

#include <cstdint>

#include "norma/autograd/var.h"

namespace norma {

/// Columns of a head at most; on a CPU there is no limit.
Index widest_gpu_head();

enum class Mask : std::uint8_t { causal, full };

/// How the stored temperature becomes a factor.
enum class Temperature : std::uint8_t {
  direct,      // factor = stored value (QKNorm's g)
  exponential  // factor = exp(min(stored, ln 100)) (Swin-v2's τ); gradient 0 where clamped
};

struct AttentionSpec {
  Index heads = 1;
  Index kv_heads = 0;  // 0: as many as heads; otherwise a divisor of heads
  Mask mask = Mask::causal;
  Index keys = 0;           // 0: all S. Otherwise only the first so many are there, as in a cache
  double scale = 0;         // 0: 1/√D. nGPT: √D
  double softcap = 0;       // 0: none
  bool log_length = false;  // multiply by ln(number of visible keys)
  Temperature temperature_kind = Temperature::direct;
};

/// Learned or given values that most attentions do without.
struct AttentionExtras {
  Var temperature{};  // (1) or (heads)
  Var log_scale{};    // (heads), with log_length: s_h in s_h·ln(n)
  Var lengths{};      // i32 (B): tokens after the length are padding
};

/// ℓ_ij = scale·τ_h·s_h·ln(n_i)·⟨q_i, k_j⟩,  z = C·tanh(ℓ/C),  o_i = Σ_j softmax_j(z_ij)·v_j
/// (factors that were not asked for are 1; without softcap z = ℓ; n_i = keys that query i sees)
/// q (B, T, heads·D)   k, v (B, S, kv_heads·D), S ≥ T: with a causal mask the last query sees the
/// last key (with `keys`: the last that is there)
/// rows of all three may be strided    o (B, T, heads·D)
/// Query head h reads key/value head h / (heads / kv_heads). A padded query gives 0.
/// saves  the log-sum of each row (B, heads, T); probabilities are recomputed in backward, and only
///        a block of queries by S of them exists at a time
/// grads  dq, dk, dv, dtemperature, dlog_scale
Var attention(Var q, Var k, Var v, AttentionSpec spec, AttentionExtras extras = {});

}  // namespace norma
