// How well a model predicts a text.
#pragma once

#include <optional>

#include "norma/data/token_data.h"
#include "norma/models/gpt.h"

namespace norma {

struct Evaluation {
  double loss = 0;  // nats a token
  Index tokens = 0;
  Index right = 0;  // tokens that were the likeliest

  double accuracy() const { return static_cast<double>(right) / static_cast<double>(tokens); }
  double perplexity() const;
  /// For a text of so many bytes a token.
  double bits_per_byte(double bytes_per_token) const;
};

struct EvaluateSpec {
  Index most_tokens = 0;  // evenly spread windows of so many; 0: the whole text
  Tensor ids;             // memory of a batch, (B, context) i32
  Tensor targets;         // (B·context) i32
};

/// Evaluation mode: no dropout, running statistics. The tape is reset. Nothing comes back where a
/// stop signal came before the last batch: a large text must not delay a stop.
std::optional<Evaluation> evaluate(Gpt& model,
                                   Tape& tape,
                                   const TokenView& tokens,
                                   const EvaluateSpec& spec);

}  // namespace norma
