// The model of a run, ready to be evaluated or to write: weights and statistics of a checkpoint,
// without data, optimizer or gradients in use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "norma/io/file_system.h"
#include "norma/models/standalone_gpt.h"
#include "norma/text/tokenizer.h"
#include "norma/train/kept_choices.h"
#include "norma/train/recipe.h"

namespace norma {

class TrainedModel {
 public:
  /// The checkpoint of a step, or the newest whole one. Throws RequestError where `run` is no run
  /// or has no such step, and Error where the checkpoint is damaged or does not fit the recipe.
  /// It computes on `device`, or where it was trained if that can be had here.
  TrainedModel(io::FileSystem& disk,
               const std::string& run,
               std::optional<Index> step = {},
               std::optional<Device> device = {});
  /// What a GPU has chosen meanwhile is kept, so that the next one computes the same bits.
  ~TrainedModel();
  TrainedModel(const TrainedModel&) = delete;
  TrainedModel& operator=(const TrainedModel&) = delete;

  const Recipe& recipe() const { return recipe_; }
  Gpt& model() { return built_.model; }
  Device device() const { return device_; }
  Index step() const { return step_; }
  /// Sentences: newer checkpoints that were skipped because they are damaged, a GPU that is absent.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  std::string find(io::FileSystem& disk, const std::string& run, std::optional<Index> step);

  Recipe recipe_;
  Device device_;
  std::optional<KeptChoices> choices_;
  StandaloneGpt built_;
  Index step_ = 0;
  std::vector<std::string> remarks_;
};

/// tokenizer.json of a run, or bytes where it has none.
std::unique_ptr<text::Tokenizer> tokenizer_of_run(const std::string& run);

}  // namespace norma
