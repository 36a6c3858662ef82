// Text sampled while a model trains, so that a person can watch it learn. Weights and statistics
// are only read: the run is the same with and without.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "norma/generate/generate.h"
#include "norma/train/recipe.h"

namespace norma {

class TrainingSamples {
 public:
  /// As train.sample_prompt, sample_tokens and samples say. Throws RequestError for a prompt that
  /// the model cannot read.
  TrainingSamples(Gpt& model, const TrainSpec& train, std::unique_ptr<text::Tokenizer> tokenizer);

  /// Lines of samples.jsonl: {"step", "sample", "prompt", "text", "seed"}, the same draws at every
  /// step. Nothing comes back where a stop signal came meanwhile.
  std::optional<std::vector<std::string>> lines(Index step);

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  Decoder decoder_;
  std::string prompt_;
  std::vector<std::int32_t> prompt_ids_;
  GenerateSpec spec_;
};

}  // namespace norma
