// Our models for other programs: a folder that transformers loads, or plain safetensors with the
// scheme in the metadata (docs/formats/exchange.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "norma/base/settings.h"
#include "norma/io/file_system.h"
#include "norma/models/gpt.h"
#include "norma/text/bpe_model.h"

namespace norma::exchange {

enum class ExportForm : std::uint8_t { hf, safetensors };

struct ExportRequest {
  ExportForm form = ExportForm::hf;
  std::string folder = {};
  std::string dtype = "f32";  // f32, bf16 or f16
  bool replace = false;       // a former export in that folder
  bool keep_padding = false;  // rows of the vocabulary that the tokenizer does not use
  bool with_logits = false;   // also ids and our logits, for tools/check_export.py
  std::uint64_t shard_bytes = 5'000'000'000;  // most bytes of weights in one file
};

/// What a folder says besides the weights.
struct ExportFacts {
  Settings recipe;  // every setting of the run
  std::string scheme;
  Index step = 0;
  std::optional<text::BpeModel> tokenizer;
};

struct Exported {
  std::string form;  // "GPT2LMHeadModel", "LlamaForCausalLM", "norma"
  std::vector<std::string> files;
  std::uint64_t weight_bytes = 0;
  std::vector<std::string> notes;
};

/// Writes the folder, whole or not at all. Throws a RequestError where the model cannot have that
/// form, and where the folder is there already.
Exported export_model(io::FileSystem& disk,
                      Gpt& model,
                      const ExportFacts& facts,
                      const ExportRequest& request);

}  // namespace norma::exchange
