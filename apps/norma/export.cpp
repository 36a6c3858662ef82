// norma export: a run's model for other programs.
#include "norma/exchange/export.h"

#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/exchange/run_tokenizer.h"
#include "norma/models/standalone_gpt.h"
#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"

namespace norma::app {

namespace {

struct Chosen {
  std::string folder;
  Index step = 0;
};

/// The checkpoint of a step, verified, or the newest whole one.
Chosen choose_checkpoint(io::FileSystem& disk, const ExportRequest& request) {
  const std::string checkpoints = io::join(request.run, "checkpoints");
  if (request.checkpoint >= 0) {
    const auto step = static_cast<std::uint64_t>(request.checkpoint);
    const std::string folder = io::join(checkpoints, io::step_folder_name(step));
    io::verify(disk, folder);
    return {folder, request.checkpoint};
  }
  const io::NewestCheckpoint found = io::newest_whole(disk, checkpoints);
  for (const io::SkippedCheckpoint& skipped : found.skipped) {
    std::fprintf(
        stderr, "norma: note: skipped %s: %s\n", skipped.folder.c_str(), skipped.why.c_str());
  }
  if (!found.whole) throw Error(say(request.run, " has no whole checkpoint to export."));
  return {found.whole->folder, static_cast<Index>(found.whole->step)};
}

}  // namespace

int run_export(const ExportRequest& request) {
  io::FileSystem& disk = io::real_file_system();
  const Recipe recipe = recipe_of_run(request.run);
  const Chosen chosen = choose_checkpoint(disk, request);
  StandaloneGpt built(recipe.model, recipe.scheme, dtype_of(recipe.train.precision));
  load_model(disk, chosen.folder, built.model);

  const exchange::ExportFacts facts{
      .recipe = used_settings(recipe),
      .scheme = recipe.scheme.name,
      .step = chosen.step,
      .tokenizer = exchange::tokenizer_of_run(disk, request.run, recipe.model)};
  const exchange::Exported done = exchange::export_model(
      disk,
      built.model,
      facts,
      {.form = request.to == "hf" ? exchange::ExportForm::hf : exchange::ExportForm::safetensors,
       .folder = request.folder,
       .dtype = request.dtype,
       .replace = request.force,
       .keep_padding = request.keep_padding,
       .with_logits = request.with_logits});
  for (const std::string& note : done.notes) {
    std::fprintf(stderr, "norma: note: %s\n", note.c_str());
  }
  if (request.json) {
    JsonLine line;
    line.add("run", request.run)
        .add("step", chosen.step)
        .add("folder", request.folder)
        .add("form", done.form)
        .add("dtype", request.dtype)
        .add("bytes", static_cast<Index>(done.weight_bytes));
    std::puts(line.text().c_str());
  } else {
    std::printf("%s: step %lld of %s as %s, %s of weights in %s, %zu files\n",
                request.folder.c_str(),
                static_cast<long long>(chosen.step),
                request.run.c_str(),
                done.form.c_str(),
                human_bytes(static_cast<double>(done.weight_bytes)).c_str(),
                request.dtype.c_str(),
                done.files.size());
  }
  return 0;
}

}  // namespace norma::app
