// norma eval: the loss of a run's newest checkpoint.
#include <cmath>
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/data/load.h"
#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"

namespace norma::app {

int run_eval(const EvalRequest& request) {
  if (request.split != "val" && request.split != "train") {
    throw RequestError(say("eval: --split must be val or train, got ", request.split, "."));
  }
  const Recipe recipe = recipe_of_run(request.run);
  io::FileSystem& disk = io::real_file_system();
  const io::NewestCheckpoint found = io::newest_whole(disk, io::join(request.run, "checkpoints"));
  for (const io::SkippedCheckpoint& skipped : found.skipped) {
    std::fprintf(
        stderr, "norma: note: skipped %s: %s\n", skipped.folder.c_str(), skipped.why.c_str());
  }
  if (!found.whole) throw Error(say(request.run, " has no whole checkpoint to evaluate."));
  Trainer trainer(recipe, load_data(recipe.data, recipe.model.vocab));
  load_model(disk, found.whole->folder, trainer);
  TokenData other;
  if (!request.data.empty()) {
    // Another text is evaluated as a whole, another data set by its split.
    other = load_data({.path = request.data, .val_fraction = 0}, recipe.model.vocab);
    if (other.val.count == 0) other.val = other.train;
  }
  const TokenData& data = request.data.empty() ? trainer.data() : other;
  const TokenView& tokens = request.split == "val" ? data.val : data.train;
  const Evaluation result = trainer.evaluate(tokens, request.tokens);
  const bool known = data.bytes_per_token > 0;
  const double bits = known ? result.loss / std::log(2.0) / data.bytes_per_token : 0;
  if (request.json) {
    JsonLine line;
    line.add("run", request.run)
        .add("step", static_cast<Index>(found.whole->step))
        .add("split", request.data.empty() ? request.split : request.data)
        .add("val/loss", result.loss)
        .add("val/perplexity", std::exp(result.loss))
        .add("tokens", result.tokens);
    if (known) line.add("val/bpb", bits);
    std::puts(line.text().c_str());
  } else {
    const std::string spoken =
        known ? say(fixed(bits, 4), " bits a byte") : "bits a byte not known";
    std::printf("%s, step %llu: loss %.4f, perplexity %.3f, %s, %lld tokens\n",
                request.run.c_str(),
                static_cast<unsigned long long>(found.whole->step),
                result.loss,
                std::exp(result.loss),
                spoken.c_str(),
                static_cast<long long>(result.tokens));
  }
  return 0;
}

}  // namespace norma::app
