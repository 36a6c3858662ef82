// norma eval: how well a run's newest checkpoint predicts a text.
#include <cstdio>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/train/evaluate.h"
#include "norma/train/trained_model.h"

namespace norma::app {

namespace {

/// Another file is evaluated as a whole.
TokenView tokens_of(const TokenData& data, const EvalRequest& request) {
  return request.data.empty() && request.split == "val" ? data.val : data.train;
}

}  // namespace

int run_eval(const EvalRequest& request) {
  if (request.split != "val" && request.split != "train") {
    throw RequestError(say("eval: --split must be val or train, got ", request.split, "."));
  }
  TrainedModel trained(io::real_file_system(), request.run);
  for (const std::string& remark : trained.remarks()) {
    std::fprintf(stderr, "norma: note: %s\n", remark.c_str());
  }
  const Recipe& recipe = trained.recipe();
  const TokenData data = request.data.empty()
                             ? load_bytes(recipe.data.path, recipe.data.val_fraction)
                             : load_bytes(request.data, 0);
  if (data.vocab > recipe.model.vocab) {
    throw RequestError(say(
        "the data have ", data.vocab, " token ids, but the model knows ", recipe.model.vocab, "."));
  }
  const Index rows = recipe.train.micro_batch == 0 ? recipe.train.batch : recipe.train.micro_batch;
  const OwnedTensor ids({rows, recipe.model.context}, DType::i32);
  const OwnedTensor targets({rows * recipe.model.context}, DType::i32);
  Tape tape;
  const Evaluation result =
      evaluate(trained.model(),
               tape,
               tokens_of(data, request),
               {.most_tokens = request.tokens, .ids = ids.tensor, .targets = targets.tensor});
  const double bits = result.bits_per_byte(data.bytes_per_token);
  if (request.json) {
    JsonLine line;
    line.add("run", request.run)
        .add("step", trained.step())
        .add("split", request.data.empty() ? request.split : request.data)
        .add("val/loss", result.loss)
        .add("val/perplexity", result.perplexity())
        .add("val/bpb", bits)
        .add("val/accuracy", result.accuracy())
        .add("tokens", result.tokens);
    std::puts(line.text().c_str());
  } else {
    std::printf(
        "%s, step %lld: loss %.4f, perplexity %.3f, %.4f bits a byte, %.2f %% of next tokens "
        "right, %lld tokens\n",
        request.run.c_str(),
        static_cast<long long>(trained.step()),
        result.loss,
        result.perplexity(),
        bits,
        100 * result.accuracy(),
        static_cast<long long>(result.tokens));
  }
  return 0;
}

}  // namespace norma::app
