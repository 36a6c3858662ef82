#include "norma/generate/decoder.h"

#include <algorithm>

#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

Decoder::Decoder(Gpt& model, Index samples)
    : model_(model),
      cache_(model.spec(), samples, model.params().dtype(), model.params().device()),
      tape_(model.params().device()),
      pass_ids_({samples, model.spec().context}, DType::i32, model.params().device()),
      window_(static_cast<std::size_t>(samples * model.spec().context)) {
  if (!on_gpu()) return;
  written_ids_ = OwnedTensor(pass_ids_.tensor.shape, DType::i32);
  home_logits_ = OwnedTensor({samples, 1, vocab()}, wide(model.params().dtype()));
}

/// Tokens [first, first + count) of every window, in one pass.
void Decoder::read(Index first, Index count) {
  const Index context = model_.spec().context;
  const Shape shape{samples(), count};
  const Tensor ids(pass_ids_.tensor.data, shape, DType::i32, tape_.arena().device());
  const Tensor written = on_gpu() ? Tensor(written_ids_.tensor.data, shape, DType::i32) : ids;
  auto* id = written.as<std::int32_t>();
  for (Index s = 0; s < samples(); ++s) {
    const auto from = window_.begin() + static_cast<std::ptrdiff_t>(s * context + first);
    id = std::copy(from, from + static_cast<std::ptrdiff_t>(count), id);
  }
  if (on_gpu()) copy(written, ids);
  tape_.reset();
  logits_ = tape_
                .evaluate([&] {
                  return model_.next_logits(tape_, ids, {.training = false, .cache = &cache_});
                })
                .value();
  if (!on_gpu()) return;
  convert(logits_, home_logits_.tensor);
  logits_ = home_logits_.tensor;
}

void Decoder::start(std::span<const std::int32_t> prompt) {
  if (prompt.empty()) throw RequestError("a model needs at least one token to go on from.");
  const auto context = static_cast<std::size_t>(model_.spec().context);
  prompt = prompt.last(std::min(prompt.size(), context));
  for (std::size_t s = 0; s < static_cast<std::size_t>(samples()); ++s) {
    std::copy(
        prompt.begin(), prompt.end(), window_.begin() + static_cast<std::ptrdiff_t>(s * context));
  }
  held_ = static_cast<Index>(prompt.size());
  cache_.clear();
  read(0, held_);
}

void Decoder::append(std::span<const std::int32_t> tokens) {
  const Index context = model_.spec().context;
  const bool full = held_ == context;
  // Positions may be learned, so what stays must be read again from position 0.
  const Index kept = full ? std::max<Index>(context / 2, 1) - 1 : held_;
  for (Index s = 0; s < samples(); ++s) {
    const auto window = window_.begin() + static_cast<std::ptrdiff_t>(s * context);
    if (full) std::copy(window + (context - kept), window + context, window);
    window[kept] = tokens[static_cast<std::size_t>(s)];
  }
  held_ = kept + 1;
  if (full) cache_.clear();
  read(full ? 0 : kept, full ? held_ : 1);
}

}  // namespace norma
