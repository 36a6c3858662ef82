#include "norma/train/evaluate.h"

#include <cmath>

#include "norma/base/stop.h"
#include "norma/data/batches.h"

namespace norma {

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte(double bytes_per_token) const {
  return loss / std::log(2.0) / bytes_per_token;
}

std::optional<Evaluation> evaluate(Gpt& model,
                                   Tape& tape,
                                   const TokenView& tokens,
                                   const EvaluateSpec& spec) {
  const ValWindows windows(tokens, spec.ids.shape.cols(), spec.most_tokens);
  Evaluation result;
  double sum = 0;
  for (Index first = 0; first < windows.count(); first += spec.ids.shape.rows()) {
    if (stop_signal() != 0) return std::nullopt;
    windows.fill(first, spec.ids, spec.targets);
    tape.reset();
    tape.evaluate([&] {
      const GptLoss batch =
          model.loss(tape, spec.ids, spec.targets, {.count_right = true}, {.training = false});
      const Tensor losses = batch.token_losses.value();
      for (Index i = 0; i < losses.count(); ++i) sum += value_at(losses, 0, i);
      for (const std::int32_t right : batch.right.value().elements<const std::int32_t>()) {
        result.right += right;
      }
      return batch.loss;
    });
  }
  result.tokens = windows.tokens();
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace norma
