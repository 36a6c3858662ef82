// norma import: a run out of another program's model.
#include "norma/exchange/import.h"

#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/exchange/run_tokenizer.h"
#include "norma/models/standalone_gpt.h"
#include "norma/tensor/planning.h"
#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"

namespace norma::app {

int run_import(const ImportRequest& request) {
  io::FileSystem& disk = io::real_file_system();
  Settings said;
  for (const std::string& assignment : request.assignments) said.set_assignment(assignment);
  const exchange::Import source(disk, request.from, request.map, said);
  const Recipe recipe = read_recipe(source.settings());
  const DType dtype = recipe.dtype();
  {
    // Sizes that a file only claims cost no memory.
    const PlanningScope planning;
    StandaloneGpt planned(recipe.model, recipe.scheme, dtype);
    source.require(planned.model);
  }
  const exchange::FoundTokenizer tokenizer =
      exchange::tokenizer_for_import(request.tokenizer, request.from, recipe.model);
  StandaloneGpt built(recipe.model, recipe.scheme, dtype);
  source.load(built.model);

  // Everything that can be wrong with the files is behind us; only now is something written.
  RunFolder folder(disk,
                   request.out,
                   request.force ? RunFolder::Open::replace : RunFolder::Open::fresh,
                   recipe,
                   tokenizer.json);
  save_weights(disk, request.out, recipe, built.model, source.step());
  folder.log(say("imported from ", request.from));

  std::vector<std::string> notes = source.notes();
  if (!tokenizer.note.empty()) notes.push_back(tokenizer.note);
  for (const std::string& note : notes) std::fprintf(stderr, "norma: note: %s\n", note.c_str());
  if (request.json) {
    JsonLine line;
    line.add("run", request.out)
        .add("from", request.from)
        .add("scheme", recipe.scheme.name)
        .add("parameters", built.params.count())
        .add("step", source.step());
    std::puts(line.text().c_str());
  } else {
    std::printf("%s: %lld parameters, scheme %s, from %s\n",
                request.out.c_str(),
                static_cast<long long>(built.params.count()),
                recipe.scheme.name.c_str(),
                request.from.c_str());
  }
  return 0;
}

}  // namespace norma::app
