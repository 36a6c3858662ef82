// norma export: a run's model for other programs.
#include "norma/exchange/export.h"

#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/exchange/run_tokenizer.h"
#include "norma/train/trained_model.h"

namespace norma::app {

int run_export(const ExportRequest& request) {
  io::FileSystem& disk = io::real_file_system();
  std::optional<Index> step;
  if (request.checkpoint >= 0) step = request.checkpoint;
  TrainedModel trained(disk, request.run, step, Device{});
  for (const std::string& remark : trained.remarks()) {
    std::fprintf(stderr, "norma: note: %s\n", remark.c_str());
  }
  const Recipe& recipe = trained.recipe();

  const exchange::ExportFacts facts{
      .recipe = used_settings(recipe),
      .scheme = recipe.scheme.name,
      .step = trained.step(),
      .tokenizer = exchange::tokenizer_of_run(disk, request.run, recipe.model)};
  const exchange::Exported done = exchange::export_model(
      disk,
      trained.model(),
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
        .add("step", trained.step())
        .add("folder", request.folder)
        .add("form", done.form)
        .add("dtype", request.dtype)
        .add("bytes", static_cast<Index>(done.weight_bytes));
    std::puts(line.text().c_str());
  } else {
    std::printf("%s: step %lld of %s as %s, %s of weights in %s, %zu files\n",
                request.folder.c_str(),
                static_cast<long long>(trained.step()),
                request.run.c_str(),
                done.form.c_str(),
                human_bytes(static_cast<double>(done.weight_bytes)).c_str(),
                request.dtype.c_str(),
                done.files.size());
  }
  return 0;
}

}  // namespace norma::app
