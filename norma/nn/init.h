// How parameters start.
#pragma once

#include <cstdint>

#include "norma/nn/param_store.h"
#include "norma/nn/scheme.h"

namespace norma {

struct InitSpec {
  InitRule rule = InitRule::gpt2;
  Index layers = 1;
  Index width = 1;
  std::uint64_t seed = 1;
};

/// Vectors get their start value, matrices random values:
///   gpt2              N(0, 0.02²); W_o and W_2 N(0, (0.02/√(2L))²)
///   xavier            U(−b, b), b = √(6/(fan_in + fan_out)); tables N(0, 0.02²)
///   xavier_truncated  N(0, 2/(fan_in + fan_out)) cut at 2 std; tables N(0, 0.02²)
///   ngpt              N(0, 1/d)
///   deepnorm          xavier, q, k, v with gain 1/√2; then v, out, up, gate, down times
///   (8L)^(−1/4);
///                     tables N(0, 1/d)
///   sub_ln            xavier, q, k, v with gain 1/√2; then v, out, up, gate, down times √(ln 2L);
///                     tables N(0, 1/d)
///   megatron          N(0, 1/(2.5·d)) cut at 3 std; W_o and W_2 divided by √(2L)
///   truncated         N(0, 0.02²) cut at 3 std
/// (tables: token, position and class embeddings.) The magnitudes of weight-normalized matrices
/// become the lengths of their rows, so that the function is that of the plain matrix.
/// The draws of a parameter depend on the seed and its name alone: two schemes start from the same
/// matrices, whatever else they have.
void init_params(ParamStore& params, const InitSpec& spec);

}  // namespace norma
