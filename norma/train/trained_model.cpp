#include "norma/train/trained_model.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/device.h"
#include "norma/io/checkpoints.h"
#include "norma/text/bpe_files.h"
#include "norma/text/load.h"
#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"

namespace norma {

namespace {

std::string known_steps(io::FileSystem& disk, const std::string& parent) {
  std::string steps;
  for (const std::string& name : io::list_folder(disk, parent)) {
    const auto step = io::step_of(name);
    if (step) steps += say(steps.empty() ? "" : ", ", *step);
  }
  return steps.empty() ? "none" : steps;
}

Device reachable(Device wanted) {
  // Whether there is a GPU is asked only where one is wanted: the answer starts CUDA.
  return wanted.kind == DeviceKind::cpu || device::available() ? wanted : Device{};
}

}  // namespace

TrainedModel::TrainedModel(io::FileSystem& disk,
                           const std::string& run,
                           std::optional<Index> step,
                           std::optional<Device> device)
    : recipe_(recipe_of_run(run)),
      device_(device ? *device : reachable(recipe_.device())),
      built_(recipe_.model, recipe_.scheme, recipe_.dtype_on(device_), device_) {
  if (!device && device_ != recipe_.device()) {
    remarks_.push_back(say(run,
                           " was trained on a GPU, and there is none here that can be used: "
                           "computing on the CPU, in ",
                           name_of(recipe_.dtype_on(device_)),
                           "."));
  }
  if (device_.kind == DeviceKind::cuda) {
    choices_.emplace(
        disk,
        KeptChoices::Files{
            .of_run = choices_of(run), .of_machine = choices_path(), .run_is_written = false});
  }
  load_model(disk, find(disk, run, step), built_.model);
}

TrainedModel::~TrainedModel() {
  try {
    if (choices_) choices_->save();
  } catch (const Error&) {
    // What was chosen once can be chosen again.
  }
}

std::string TrainedModel::find(io::FileSystem& disk,
                               const std::string& run,
                               std::optional<Index> step) {
  const std::string parent = checkpoints_of(run);
  if (step) {
    step_ = *step;
    std::string folder = io::join(parent, io::step_folder_name(static_cast<std::uint64_t>(*step)));
    if (!io::is_there(disk, folder)) {
      throw RequestError(say(run,
                             " has no checkpoint of step ",
                             *step,
                             "; there are: ",
                             known_steps(disk, parent),
                             "."));
    }
    io::verify(disk, folder);
    return folder;
  }
  const io::NewestCheckpoint found = io::newest_whole(disk, parent);
  for (const io::SkippedCheckpoint& skipped : found.skipped) {
    remarks_.push_back(say("skipped ", skipped.folder, ": ", skipped.why));
  }
  if (!found.whole) {
    if (found.skipped.empty()) {
      throw Error(say(run, " has no whole checkpoint yet; let it train until it saves one."));
    }
    throw Error(say(run, " has no whole checkpoint. The newest: ", found.skipped[0].why));
  }
  step_ = static_cast<Index>(found.whole->step);
  return found.whole->folder;
}

std::unique_ptr<text::Tokenizer> tokenizer_of_run(const std::string& run) {
  const std::string path = io::join(run, text::kTokenizerFile);
  return text::load_tokenizer(io::is_there(io::real_file_system(), path) ? path : "byte");
}

}  // namespace norma
