// What the parts of a model need while they are built, and while they run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "norma/models/model_spec.h"
#include "norma/nn/norm_layer.h"

namespace norma {

class KvCache;

/// A handle of ParamStore for something that may be absent.
inline constexpr std::size_t kNoParam = static_cast<std::size_t>(-1);

/// Building: the size of the model, the scheme, and where parameters are declared.
struct Build {
  const ModelSpec& spec;
  const Scheme& scheme;
  ParamStore& params;
  std::vector<FormulaVariable> sizes;

  Build(const ModelSpec& model, const Scheme& chosen, ParamStore& store);

  double value(const Formula& formula) const { return formula(sizes); }
  NormLayer norm(const Slot& slot,
                 const std::string& name,
                 Index width,
                 const NormLayer* lender = nullptr) const;
  /// A vector that is neither a gain nor a bias: alpha, s_u, a temperature.
  std::size_t scale(const std::string& name, Index count, double start, double logical = 1) const;
};

/// Running: one pass over the model.
struct Pass {
  bool training = true;
  bool recompute = false;               // blocks run again in backward instead of being kept
  std::uint64_t seed = 0;               // with step: who draws for dropout
  Tensor step{};                        // (1) i32 where the model runs, its number; absent: 0
  Index offset = 0;                     // position of the first token; a cache knows it itself
  Index first_sequence = 0;             // number of the first sequence in the batch of the step
  std::vector<Var>* streams = nullptr;  // takes the residual stream after each block, if given
  KvCache* cache = nullptr;             // takes keys and values, and gives back all it holds
  Var lengths{};                        // set by the model: lengths of padded sequences, or absent

  NormPass norm() const { return {training, lengths, offset}; }
};

inline Var watch(Tape& tape, ParamStore& params, std::size_t handle) {
  return handle == kNoParam ? Var{} : tape.watch(params.leaf(handle));
}

/// x·factor, or x itself for factor 1. `one` is a tensor (1) that holds 1.
Var times(Tape& tape, Var x, double factor, const OwnedTensor& one);

}  // namespace norma
