// Keys and values of the tokens a model has read, so that the next token costs one row and not the
// whole sequence again. Sequences of a batch have the same length.
#pragma once

#include <vector>

#include "norma/models/model_spec.h"
#include "norma/tensor/buffer.h"

namespace norma {

class KvCache {
 public:
  /// Room for model.context tokens of every sequence.
  KvCache(const ModelSpec& spec, Index sequences, DType dtype, Device device = {});

  Index filled() const { return filled_; }  // tokens held of each sequence
  Index room() const { return context_ - filled_; }
  Index sequences() const { return sequences_; }
  void clear() { filled_ = 0; }
  std::size_t bytes() const;

  // --- for the model -------------------------------------------------------------------------
  /// What a layer attends to: the first `count` rows of each sequence.
  struct Layer {
    Tensor keys;    // (B, context, kv_heads·D), normalized and rotated
    Tensor values;  // like keys
    Index count = 0;
  };
  /// Puts k and v (B, T, kv_heads·D) behind what the layer holds. Every layer of a pass writes to
  /// the same place; advance() follows the last one.
  Layer append(Index layer, const Tensor& k, const Tensor& v);
  void advance(Index tokens) { filled_ += tokens; }
  /// Throws RequestError when it was made for another model or another number of sequences.
  void require_fits(const ModelSpec& spec, Index sequences) const;

 private:
  struct Memory {
    OwnedTensor keys;
    OwnedTensor values;
  };
  void put(const Tensor& from, const Tensor& to) const;

  Index sequences_;
  Index context_;
  Index width_;
  Index filled_ = 0;
  std::vector<Memory> layers_;
};

}  // namespace norma
