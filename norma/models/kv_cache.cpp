#include "norma/models/kv_cache.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

/// `count` rows from row `first` on, at the distance they have.
Tensor row_range(const Tensor& of, Index first, Index count) {
  Tensor part = of;
  part.data = static_cast<std::byte*>(of.data) +
              static_cast<std::size_t>(first * of.row_stride) * size_of(of.dtype);
  part.shape = {count, of.shape.cols()};
  return part;
}

}  // namespace

KvCache::KvCache(const ModelSpec& spec, Index sequences, DType dtype, Device device)
    : sequences_(sequences), context_(spec.context), width_(spec.key_heads() * spec.head()) {
  layers_.resize(static_cast<std::size_t>(spec.layers));
  for (Memory& layer : layers_) {
    layer.keys = OwnedTensor({sequences_, context_, width_}, dtype, device);
    layer.values = OwnedTensor({sequences_, context_, width_}, dtype, device);
  }
}

std::size_t KvCache::bytes() const {
  std::size_t sum = 0;
  for (const Memory& layer : layers_)
    sum += layer.keys.buffer.bytes() + layer.values.buffer.bytes();
  return sum;
}

void KvCache::require_fits(const ModelSpec& spec, Index sequences) const {
  const bool same_model = context_ == spec.context && width_ == spec.key_heads() * spec.head() &&
                          static_cast<Index>(layers_.size()) == spec.layers;
  if (!same_model) throw RequestError("this cache was made for a model of another size.");
  if (sequences != sequences_) {
    throw RequestError(
        say("this cache holds ", sequences_, " sequences, got a pass over ", sequences, "."));
  }
}

void KvCache::put(const Tensor& from, const Tensor& to) const {
  const Index tokens = from.shape.rows() / sequences_;
  for (Index b = 0; b < sequences_; ++b) {
    copy(row_range(from, b * tokens, tokens), row_range(to, b * context_ + filled_, tokens));
  }
}

KvCache::Layer KvCache::append(Index layer, const Tensor& k, const Tensor& v) {
  const Memory& memory = layers_[static_cast<std::size_t>(layer)];
  put(k, memory.keys.tensor);
  put(v, memory.values.tensor);
  return {memory.keys.tensor, memory.values.tensor, filled_ + k.shape.rows() / sequences_};
}

}  // namespace norma
