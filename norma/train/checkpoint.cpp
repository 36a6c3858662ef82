#include "norma/train/checkpoint.h"

#include <functional>
#include <vector>

#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/io/safetensors.h"
#include "norma/io/strict_json.h"
#include "norma/tensor/plain.h"
#include "norma/train/run_folder.h"

namespace norma {

namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr std::uint64_t kLargestState = 1 << 16;

std::vector<NamedTensor> optimizer_tensors(Trainer& trainer) {
  std::vector<NamedTensor> tensors;
  for (const StateTensor& state : trainer.optimizer().state()) {
    tensors.push_back({state.name, state.tensor});
  }
  return tensors;
}

io::TensorSpec spec_of(const NamedTensor& named) {
  io::TensorSpec spec;
  spec.name = named.name;
  spec.type = io::find_stored_type(named.tensor.dtype == DType::f64 ? "F64" : "F32");
  for (int i = 0; i < named.tensor.shape.rank(); ++i) {
    spec.shape.push_back(static_cast<std::uint64_t>(named.tensor.shape[i]));
  }
  return spec;
}

std::vector<io::TensorSpec> specs_of(const std::vector<NamedTensor>& tensors) {
  std::vector<io::TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const NamedTensor& named : tensors) specs.push_back(spec_of(named));
  return specs;
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data), tensor.bytes()};
}

bool on_host(const Tensor& tensor) { return tensor.device.kind == DeviceKind::cpu; }

const NamedTensor& find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& named : tensors) {
    if (named.name == name) return named;
  }
  throw Error(say("there is no tensor ", name, "."));
}

void write_tensors(io::ByteSink& sink,
                   const std::vector<NamedTensor>& tensors,
                   const io::Metadata& metadata) {
  io::SafetensorsWriter writer(sink, specs_of(tensors), metadata);
  for (const io::StoredTensor& stored : writer.order()) {
    const Tensor& tensor = find(tensors, stored.name).tensor;
    if (on_host(tensor)) {
      writer.write(stored.name, bytes_of(tensor));
    } else {
      writer.write(stored.name, bytes_of(host_copy(tensor).tensor));
    }
  }
  writer.finish();
}

void read_tensors(io::FileSystem& disk,
                  const std::string& path,
                  const std::vector<NamedTensor>& tensors) {
  const io::SafetensorsFile file(disk, path);
  io::require_tensors(path, file.layout(), specs_of(tensors));
  for (const NamedTensor& named : tensors) {
    const io::StoredTensor& stored = *file.layout().find(named.name);
    if (on_host(named.tensor)) {
      file.read(stored, bytes_of(named.tensor));
    } else {
      const OwnedTensor home(named.tensor.shape, named.tensor.dtype);
      file.read(stored, bytes_of(home.tensor));
      copy(home.tensor, named.tensor);
    }
  }
}

/// What a checkpoint holds must be fit to go on from.
void require_finite(const std::vector<NamedTensor>& tensors, Index step) {
  for (const NamedTensor& named : tensors) {
    if (all_finite(named.tensor)) continue;
    throw DivergedError(say("no checkpoint was written at step ",
                            step,
                            ": ",
                            named.name,
                            " is not finite. Go on with --resume from the last checkpoint, or try "
                            "a lower optim.lr."));
  }
}

void write_model(io::Commit& commit, const Recipe& recipe, Gpt& model) {
  const io::Metadata metadata = {{"format", "pt"},
                                 {"norma.scheme", recipe.scheme.name},
                                 {"norma.family", std::string(word_of(recipe.model.family))}};
  commit.write(kModelFile,
               [&](io::ByteSink& sink) { write_tensors(sink, model.tensors(), metadata); });
}

/// It goes into metrics.jsonl as it is.
bool is_line_of_metrics(const std::string& text) {
  return text.starts_with("{\"step\":") && text.ends_with('}') &&
         text.find('\n') == std::string::npos;
}

std::string state_text(const RunState& state) {
  JsonLine line;
  line.add("step", state.step).add("elapsed_ms", static_cast<Index>(state.elapsed_ms));
  if (!state.data.empty()) line.add("data", state.data);
  if (!state.open.metrics.empty()) line.add("open_metrics", state.open.metrics);
  if (state.open.samples) line.add("open_samples", 1);
  return line.text() + "\n";
}

}  // namespace

RunState parse_state(const std::string& path, std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  RunState state;
  bool has_step = false;
  io::StrictJson json(path, text);
  json.object([&](const std::string& key) {
    if (key == "data") {
      state.data = json.string();
      return;
    }
    if (key == "open_metrics") {
      state.open.metrics = json.string();
      if (!is_line_of_metrics(state.open.metrics))
        json.refuse("open_metrics is no line of metrics.");
      return;
    }
    const std::uint64_t value = json.integer();
    if (value > kMost) json.refuse(say(key, " is ", value, "; at most ", kMost, " makes sense."));
    if (key == "step") {
      state.step = static_cast<Index>(value);
      has_step = true;
    } else if (key == "elapsed_ms") {
      state.elapsed_ms = value;
    } else if (key == "open_samples") {
      state.open.samples = value != 0;
    } else {
      json.refuse(say("step and elapsed_ms were expected, got ", io::json_string_start(key), "."));
    }
  });
  json.end();
  if (!has_step) json.refuse("the step is missing.");
  return state;
}

std::string save_checkpoint(io::FileSystem& disk,
                            const std::string& run,
                            Trainer& trainer,
                            const RunState& state) {
  trainer.require_settled();
  const Recipe& recipe = trainer.recipe();
  const std::vector<NamedTensor> optimizer = optimizer_tensors(trainer);
  require_finite(trainer.model().tensors(), state.step);
  require_finite(optimizer, state.step);
  io::Commit commit(disk, checkpoints_of(run), static_cast<std::uint64_t>(state.step));
  write_model(commit, recipe, trainer.model());
  commit.write(kOptimizerFile, [&](io::ByteSink& sink) {
    write_tensors(sink, optimizer, {{"format", "pt"}});
  });
  RunState written = state;
  written.data = trainer.data().digest;
  commit.write(kStateFile, [&](io::ByteSink& sink) { io::write_text(sink, state_text(written)); });
  return commit.finish(
      {{"scheme", recipe.scheme.name}, {"optimizer", std::string(word_of(recipe.optim.name))}});
}

std::string save_weights(
    io::FileSystem& disk, const std::string& run, const Recipe& recipe, Gpt& model, Index step) {
  const std::string checkpoints = checkpoints_of(run);
  io::make_folder(disk, checkpoints);
  io::Commit commit(disk, checkpoints, static_cast<std::uint64_t>(step));
  write_model(commit, recipe, model);
  return commit.finish({{"scheme", recipe.scheme.name}});
}

void load_model(io::FileSystem& disk, const std::string& folder, Gpt& model) {
  read_tensors(disk, io::join(folder, kModelFile), model.tensors());
  model.params().refresh_copies();
}

namespace {

void require_same_data(const std::string& folder, const RunState& state, const TokenData& data) {
  if (state.data.empty() || data.digest.empty() || state.data == data.digest) return;
  throw RequestError(say(folder,
                         " was trained on other data: their digest was ",
                         state.data,
                         ", that of ",
                         data.description,
                         " is ",
                         data.digest,
                         ". Restore the data set, or start a new run with another --out."));
}

}  // namespace

RunState load_checkpoint(io::FileSystem& disk, const std::string& folder, Trainer& trainer) {
  if (!io::verify(disk, folder, io::Depth::sizes).files.contains(kOptimizerFile)) {
    throw RequestError(
        say(folder,
            " holds weights alone, so there is no training to resume. Start one from "
            "them in another folder, with train.init_from naming this run."));
  }
  const std::string path = io::join(folder, kStateFile);
  const std::string text = io::File(disk, path, io::OpenAs::read).text(kLargestState);
  RunState state = parse_state(path, text);
  require_same_data(folder, state, trainer.data());
  load_model(disk, folder, trainer.model());
  read_tensors(disk, io::join(folder, kOptimizerFile), optimizer_tensors(trainer));
  trainer.set_steps_done(state.step);
  return state;
}

void start_from_run(io::FileSystem& disk, const std::string& run, Trainer& trainer) {
  const io::NewestCheckpoint found = io::newest_whole(disk, checkpoints_of(run));
  if (!found.whole) {
    throw RequestError(say("train.init_from: ", run, " has no whole checkpoint to start from."));
  }
  load_model(disk, found.whole->folder, trainer.model());
  trainer.start_anew();
}

}  // namespace norma
