#include "norma/train/evaluate.h"

#include <cmath>

#include "norma/base/stop.h"
#include "norma/data/batches.h"
#include "norma/tensor/plain.h"

namespace norma {

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte(double bytes_per_token) const {
  return loss / std::log(2.0) / bytes_per_token;
}

std::optional<Evaluation> evaluate(
    Gpt& model, Tape& tape, BatchMemory& batch, const TokenView& tokens, const EvaluateSpec& spec) {
  const ValWindows windows(tokens, batch.context(), spec.most_tokens);
  Evaluation result;
  double sum = 0;
  for (Index first = 0; first < windows.count(); first += batch.rows()) {
    if (stop_signal() != 0) return std::nullopt;
    batch.fill(
        [&](const Tensor& ids, const Tensor& targets) { windows.fill(first, ids, targets); });
    tape.reset();
    tape.evaluate([&] {
      const GptLoss found = model.loss(
          tape, batch.ids(), batch.targets(), {.count_right = true}, {.training = false});
      const OwnedTensor losses = host_copy(found.token_losses.value());
      for (Index i = 0; i < losses.tensor.count(); ++i) sum += value_at(losses.tensor, 0, i);
      const OwnedTensor right = host_copy(found.right.value());
      for (const std::int32_t one : right.tensor.elements<const std::int32_t>()) {
        result.right += one;
      }
      return found.loss;
    });
  }
  result.tokens = windows.tokens();
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace norma
