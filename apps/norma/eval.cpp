// norma eval: the loss of a run's newest checkpoint.
#include <cmath>
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/train/checkpoint.h"
#include "norma/train/run_folder.h"

namespace norma::app {

int run_eval(const EvalRequest& request) {
  if (request.split != "val" && request.split != "train") {
    throw RequestError(say("eval: --split must be val or train, got ", request.split, "."));
  }
  const Recipe recipe = recipe_of_run(request.run);
  const std::string path = request.data.empty() ? recipe.data.path : request.data;
  io::FileSystem& disk = io::real_file_system();
  const io::NewestCheckpoint found = io::newest_whole(disk, io::join(request.run, "checkpoints"));
  for (const io::SkippedCheckpoint& skipped : found.skipped) {
    std::fprintf(
        stderr, "norma: note: skipped %s: %s\n", skipped.folder.c_str(), skipped.why.c_str());
  }
  if (!found.whole) throw Error(say(request.run, " has no whole checkpoint to evaluate."));
  // Another file is evaluated as a whole.
  Trainer trainer(recipe, load_bytes(recipe.data.path, recipe.data.val_fraction));
  load_model(disk, found.whole->folder, trainer.model());
  const TokenData other = request.data.empty() ? TokenData{} : load_bytes(path, 0);
  const TokenView tokens = !request.data.empty()    ? other.train
                           : request.split == "val" ? trainer.data().val
                                                    : trainer.data().train;
  const Evaluation result = trainer.evaluate(tokens, request.tokens);
  const double bits = result.loss / std::log(2.0) / trainer.data().bytes_per_token;
  if (request.json) {
    JsonLine line;
    line.add("run", request.run)
        .add("step", static_cast<Index>(found.whole->step))
        .add("split", request.data.empty() ? request.split : request.data)
        .add("val/loss", result.loss)
        .add("val/perplexity", std::exp(result.loss))
        .add("val/bpb", bits)
        .add("tokens", result.tokens);
    std::puts(line.text().c_str());
  } else {
    std::printf("%s, step %llu: loss %.4f, perplexity %.3f, %.4f bits a byte, %lld tokens\n",
                request.run.c_str(),
                static_cast<unsigned long long>(found.whole->step),
                result.loss,
                std::exp(result.loss),
                bits,
                static_cast<long long>(result.tokens));
  }
  return 0;
}

}  // namespace norma::app
