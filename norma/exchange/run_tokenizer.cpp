#include "norma/exchange/run_tokenizer.h"

#include <algorithm>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/file.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/load.h"

namespace norma::exchange {

namespace {

constexpr Index kBytes = 256;

}  // namespace

std::optional<text::BpeModel> tokenizer_of_run(io::FileSystem& disk,
                                               const std::string& run,
                                               const ModelSpec& spec) {
  const std::vector<std::string> names = io::list_folder(disk, run);
  if (std::find(names.begin(), names.end(), text::kTokenizerFile) == names.end()) {
    return spec.vocab == kBytes ? std::optional(text::byte_model()) : std::nullopt;
  }
  const std::string path = io::join(run, text::kTokenizerFile);
  return text::read_tokenizer_json(
      path, io::File(disk, path, io::OpenAs::read).text(text::kLargestTokenizerFile));
}

FoundTokenizer tokenizer_for_import(const std::string& named,
                                    const std::string& from,
                                    const ModelSpec& spec) {
  std::unique_ptr<text::Tokenizer> tokenizer;
  try {
    tokenizer = text::load_tokenizer(named.empty() ? from : named);
  } catch (const Error& error) {
    if (!named.empty()) throw;
    return {"",
            say("there is no tokenizer in the run: ",
                error.what(),
                " Name one with --tokenizer (gpt2, byte, a file or folder).")};
  }
  if (tokenizer->vocab_size() > spec.vocab) {
    throw RequestError(say("the tokenizer has ",
                           tokenizer->vocab_size(),
                           " ids, but the model's vocabulary ends at ",
                           spec.vocab,
                           "; name the right one with --tokenizer."));
  }
  return {tokenizer->json(), ""};
}

}  // namespace norma::exchange
