// The tokenizer that belongs to a model.
#pragma once

#include <optional>
#include <string>

#include "norma/io/file_system.h"
#include "norma/models/model_spec.h"
#include "norma/text/bpe_model.h"

namespace norma::exchange {

/// tokenizer.json of a run. A run without one is of bytes if its vocabulary has 256 ids; nothing is
/// known of the tokens of any other.
std::optional<text::BpeModel> tokenizer_of_run(io::FileSystem& disk,
                                               const std::string& run,
                                               const ModelSpec& spec);

struct FoundTokenizer {
  std::string json;  // tokenizer.json for a run; empty: none
  std::string note;  // a sentence, where there is something to say
};
/// The tokenizer for an imported model: the one that was named (gpt2, byte, a file or folder), or
/// what lies beside the weights. One that Norma cannot do is left out with a note, unless it was
/// named; one with more ids than the model has is refused.
FoundTokenizer tokenizer_for_import(const std::string& named,
                                    const std::string& from,
                                    const ModelSpec& spec);

}  // namespace norma::exchange
