// norma eval: how well a run's newest checkpoint predicts a text.
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/data/load.h"
#include "norma/train/evaluate.h"
#include "norma/train/trained_model.h"

namespace norma::app {

namespace {

/// Another text is evaluated as a whole, another data set by its split.
TokenData data_of(const EvalRequest& request, const Recipe& recipe) {
  if (request.data.empty()) return load_data(recipe.data, recipe.model.vocab);
  TokenData other = load_data({.path = request.data, .val_fraction = 0}, recipe.model.vocab);
  if (other.val.count == 0) other.val = other.train;
  return other;
}

}  // namespace

int run_eval(const EvalRequest& request) {
  if (request.split != "val" && request.split != "train") {
    throw RequestError(say("eval: --split must be val or train, got ", request.split, "."));
  }
  TrainedModel trained(io::real_file_system(), request.run, {}, asked_device(request.device));
  for (const std::string& remark : trained.remarks()) {
    std::fprintf(stderr, "norma: note: %s\n", remark.c_str());
  }
  const Recipe& recipe = trained.recipe();
  const TokenData data = data_of(request, recipe);
  const Index rows = recipe.train.rows_at_once();
  BatchMemory batch(rows, recipe.model.context, trained.device());
  Tape tape(trained.device());
  // Nobody watches signals here, so a whole evaluation comes back.
  const Evaluation result = *evaluate(trained.model(),
                                      tape,
                                      batch,
                                      request.split == "val" ? data.val : data.train,
                                      {.most_tokens = request.tokens});
  const bool known = data.bytes_per_token > 0;
  const double bits = known ? result.bits_per_byte(data.bytes_per_token) : 0;
  if (request.json) {
    JsonLine line;
    line.add("run", request.run)
        .add("step", trained.step())
        .add("split", request.data.empty() ? request.split : request.data)
        .add("val/loss", result.loss)
        .add("val/perplexity", result.perplexity())
        .add("val/accuracy", result.accuracy())
        .add("tokens", result.tokens);
    if (known) line.add("val/bpb", bits);
    std::puts(line.text().c_str());
  } else {
    const std::string spoken =
        known ? say(fixed(bits, 4), " bits a byte") : "bits a byte not known";
    std::printf(
        "%s, step %lld: loss %.4f, perplexity %.3f, %s, %.2f %% of next tokens right, %lld "
        "tokens\n",
        request.run.c_str(),
        static_cast<long long>(trained.step()),
        result.loss,
        result.perplexity(),
        spoken.c_str(),
        100 * result.accuracy(),
        static_cast<long long>(result.tokens));
  }
  return 0;
}

}  // namespace norma::app
