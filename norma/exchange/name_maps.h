// The names of other programs, as joints. Names are without the prefix of the body ("transformer.",
// "model."), which readers ignore and writers add (docs/formats/exchange.md has the tables).
#pragma once

#include <vector>

#include "norma/exchange/joint.h"

namespace norma::exchange {

enum class NameMap : std::uint8_t { gpt2, llama, nanogpt, ngpt, norma };

/// Every tensor of the model under the names of another program. A bias that their form demands
/// and the model lacks is zeros. Throws nothing: whether the model fits is for others to judge.
std::vector<Joint> joints_of(NameMap map, const ModelSpec& spec, const TensorMap& ours);

}  // namespace norma::exchange
