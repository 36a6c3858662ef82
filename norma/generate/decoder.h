// A model that reads tokens and says what may come next, for several samples at once and without
// end: where the context is full it goes on with the last half of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "norma/autograd/tape.h"
#include "norma/models/gpt.h"
#include "norma/models/kv_cache.h"

namespace norma {

class Decoder {
 public:
  /// The model is only read. Batch statistics are those of evaluation.
  Decoder(Gpt& model, Index samples);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Index samples() const { return cache_.sequences(); }
  Index vocab() const { return model_.spec().vocab; }

  /// Forgets everything and reads one prompt for all samples, or its end where it is longer than
  /// the context. Throws RequestError when it is empty.
  void start(std::span<const std::int32_t> prompt);
  /// Reads one more token of each sample.
  void append(std::span<const std::int32_t> tokens);
  /// Logits (samples, 1, V) of the next token in the CPU's memory, until the next call of start()
  /// or append().
  const Tensor& logits() const { return logits_; }
  /// Where the model is: the cache, and what the largest pass so far touched.
  std::size_t bytes() const {
    return cache_.bytes() + pass_ids_.buffer.bytes() + tape_.arena().touched();
  }

 private:
  void read(Index first, Index count);
  bool on_gpu() const { return tape_.arena().device().kind == DeviceKind::cuda; }

  Gpt& model_;
  KvCache cache_;
  Tape tape_;
  OwnedTensor pass_ids_;              // memory for the ids of one pass, where the model is
  OwnedTensor written_ids_;           // where the host writes them, if that is elsewhere
  OwnedTensor home_logits_;           // a copy of logits that are on a GPU
  std::vector<std::int32_t> window_;  // (samples, context): the tokens that the cache holds
  Index held_ = 0;                    // of each sample
  Tensor logits_;
};

}  // namespace norma
