#include "norma/train/training_samples.h"

#include "norma/base/json_line.h"
#include "norma/base/stop.h"

namespace norma {

TrainingSamples::TrainingSamples(Gpt& model,
                                 const TrainSpec& train,
                                 std::unique_ptr<text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      decoder_(model, train.samples),
      prompt_(train.sample_prompt),
      prompt_ids_(prompt_ids(*tokenizer_, prompt_, model.spec().vocab)),
      spec_(spec_for(*tokenizer_, model.spec().vocab)) {
  spec_.tokens = train.sample_tokens;
  spec_.sampling.seed = static_cast<std::uint64_t>(train.seed);
}

std::optional<std::vector<std::string>> TrainingSamples::lines(Index step) {
  std::vector<std::vector<text::Id>> drawn(static_cast<std::size_t>(decoder_.samples()));
  generate(decoder_, prompt_ids_, spec_, [&](Index sample, text::Id id) {
    drawn[static_cast<std::size_t>(sample)].push_back(id);
    return stop_signal() == 0;
  });
  if (stop_signal() != 0) return std::nullopt;
  std::vector<std::string> lines;
  for (std::size_t sample = 0; sample < drawn.size(); ++sample) {
    JsonLine line;
    line.add("step", step)
        .add("sample", static_cast<Index>(sample))
        .add("prompt", prompt_)
        .add("text", tokenizer_->decode(drawn[sample]))
        .add("seed", static_cast<Index>(spec_.sampling.seed));
    lines.push_back(line.text());
  }
  return lines;
}

}  // namespace norma
