#include "norma/nn/param_store.h"

#include <algorithm>
#include <limits>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

// Leaves start on a cache line for f32 and wider types.
constexpr Index kGrain = static_cast<Index>(kAlignment / sizeof(float));
// Bytes of all of them are counted in 64 bits.
constexpr Index kMost = std::numeric_limits<Index>::max() / 16;

}  // namespace

std::size_t ParamStore::add(ParamSpec spec) { return add_fused({std::move(spec)}); }

std::size_t ParamStore::add_fused(std::span<const ParamSpec> parts) {
  if (!leaves_.empty()) throw Error("parameters must be declared before they are allocated.");
  if (parts.size() == 0) throw RequestError("a fused matrix needs at least one part.");
  const std::size_t leaf = leaf_shapes_.size();
  Index rows = 0;
  Index length = 0;
  Index offset = total_;
  const bool vectors = parts.begin()->shape.rank() == 1;
  const Index cols = parts.begin()->shape.cols();
  for (const ParamSpec& part : parts) {  // check all before declaring any
    const auto same = [&](const ParamSpec& other) { return other.name == part.name; };
    if (names_.contains(part.name) || std::count_if(parts.begin(), parts.end(), same) > 1) {
      throw RequestError(say("two parameters are named ", part.name, "."));
    }
    if (part.shape.count() > kMost - length - offset) {
      throw RequestError(
          say("the model has too many parameters to count: ", part.name, " is one too many."));
    }
    length += part.shape.count();
    const bool fits =
        vectors ? part.shape.rank() == 1 : part.shape.rank() == 2 && part.shape.cols() == cols;
    if (parts.size() > 1 && !fits) {
      throw ShapeError(part.name,
                       vectors ? "a part of a joined vector" : "a part of a fused matrix",
                       vectors ? std::string("a vector") : say("(rows, ", cols, ")"),
                       part.shape.text());
    }
  }
  for (const ParamSpec& part : parts) {
    names_.insert(part.name);
    params_.push_back({part.name, part.shape, part.tags, offset, leaf, part.start});
    offset += part.shape.count();
    rows += part.shape.rows();
  }
  leaf_shapes_.push_back(parts.size() == 1 ? parts.begin()->shape
                         : vectors         ? Shape{length}
                                           : Shape{rows, cols});
  total_ = (offset + kGrain - 1) / kGrain * kGrain;
  return leaf;
}

void ParamStore::allocate(DType dtype, Device device, Masters masters) {
  if (params_.empty()) throw Error("there are no parameters to allocate.");
  dtype_ = dtype;
  masters_ = masters;
  const auto elements = static_cast<std::size_t>(total_);
  values_ = Buffer(elements * size_of(wide(dtype)), device);
  grads_ = Buffer(elements * size_of(wide(dtype)), device);
  if (dtype == DType::bf16) copies_ = Buffer(elements * size_of(dtype), device);
  leaves_.resize(leaf_shapes_.size());
  for (std::size_t i = params_.size(); i-- > 0;) {
    // Walking backwards, the last write for a leaf is its first part: where the leaf begins.
    const Param& param = params_[i];
    Leaf& leaf = leaves_[param.leaf];
    const bool copied = dtype == DType::bf16 && param.shape.rank() > 1;
    leaf.value = part(copied ? copies_ : values_, param, copied ? dtype : wide(dtype));
    leaf.grad = grad(param);
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Leaf& leaf = leaves_[i];
    leaf.value = Tensor(leaf.value.data, leaf_shapes_[i], leaf.value.dtype, device);
    leaf.grad = Tensor(leaf.grad.data, leaf_shapes_[i], leaf.grad.dtype, device);
  }
}

Tensor ParamStore::part(const Buffer& buffer, const Param& param, DType dtype) {
  return Tensor(buffer.data() + static_cast<std::size_t>(param.offset) * size_of(dtype),
                param.shape,
                dtype,
                buffer.device());
}

Tensor ParamStore::flat(const Buffer& buffer, DType dtype) const {
  return Tensor(buffer.data(), {total_}, dtype, buffer.device());
}

Tensor ParamStore::copies() const {
  return copies_.data() == nullptr ? Tensor() : flat(copies_, dtype_);
}

void ParamStore::refresh_copies() {
  if (copies_.data() == nullptr) return;
  convert(values(), copies());
  if (masters_ == Masters::none) round_values();
}

void ParamStore::finish_step() {
  if (copies_.data() == nullptr) return;
  if (device().kind == DeviceKind::cpu) convert(values(), copies());
  if (masters_ == Masters::none) round_values();
}

void ParamStore::round_values() {
  for (const Param& param : params_) {
    if (param.shape.rank() > 1) convert(part(copies_, param, dtype_), value(param));
  }
}

const Param& ParamStore::find(const std::string& name) const {
  std::vector<std::string> names;
  for (const Param& param : params_) {
    if (param.name == name) return param;
    names.push_back(param.name);
  }
  const std::string near = nearest_word(name, names);
  throw RequestError(say(
      "there is no parameter ", name, ".", near.empty() ? "" : say(" Did you mean ", near, "?")));
}

void ParamStore::freeze(const std::string& name, bool frozen) {
  if (leaves_.empty()) throw Error("parameters must be allocated before they are frozen.");
  const std::size_t leaf = find(name).leaf;
  bool wanted = false;
  for (Param& param : params_) {
    if (param.name == name) param.frozen = frozen;
    if (param.leaf == leaf) wanted = wanted || !param.frozen;
  }
  leaves_[leaf].needs_grad = wanted;
}

Index ParamStore::count() const {
  Index sum = 0;
  for (const Param& param : params_) sum += param.count();
  return sum;
}

void ParamStore::begin_accumulation() {
  for (Leaf& leaf : leaves_) leaf.fresh = true;
}

void ParamStore::finish_accumulation() {
  for (Leaf& leaf : leaves_) {
    if (leaf.fresh) fill(leaf.grad, 0);
    leaf.fresh = false;
  }
  for (const Param& param : params_) {
    if (param.frozen) fill(grad(param), 0);
  }
}

}  // namespace norma
