// How well a model predicts a text.
#pragma once

#include <optional>

#include "norma/data/token_data.h"
#include "norma/models/gpt.h"
#include "norma/train/batch_memory.h"

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
};

/// Evaluation mode: no dropout, running statistics. The tape is reset; `batch` is how many
/// sequences are looked at together. Nothing comes back where a stop signal came before the last
/// batch: a large text must not delay a stop.
std::optional<Evaluation> evaluate(
    Gpt& model, Tape& tape, BatchMemory& batch, const TokenView& tokens, const EvaluateSpec& spec);

}  // namespace norma
