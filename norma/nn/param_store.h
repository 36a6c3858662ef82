// Parameters of a model: values in one buffer, gradients in another, so that clipping, optimizers
// and reductions run over long contiguous spans. Every parameter keeps its own name, rows and tags
// even where several are multiplied as one matrix.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "norma/autograd/var.h"
#include "norma/nn/param_tags.h"
#include "norma/tensor/buffer.h"

namespace norma {

struct ParamSpec {
  std::string name;
  Shape shape;
  ParamTags tags;
  double start = 0;  // every element of a vector at the start; matrices follow an init rule
};

struct Param {
  std::string name;
  Shape shape;
  ParamTags tags;
  Index offset = 0;      // first element in the flat buffers
  std::size_t leaf = 0;  // the leaf it is a part of
  double start = 0;
  bool frozen = false;
  Index count() const { return shape.count(); }
};

class ParamStore {
 public:
  /// Declares one parameter; the handle is for leaf().
  std::size_t add(ParamSpec spec);
  /// Declares matrices with the same number of columns whose rows lie side by side, so that one
  /// product serves all of them: leaf() is then the matrix of all their rows. Vectors are joined
  /// end to end.
  std::size_t add_fused(std::span<const ParamSpec> parts);
  std::size_t add_fused(std::initializer_list<ParamSpec> parts) {
    return add_fused(std::span<const ParamSpec>(parts.begin(), parts.size()));
  }

  /// Allocates values and gradients, both zero. Nothing can be declared afterwards.
  void allocate(DType dtype, Device device = {});

  Leaf& leaf(std::size_t handle) { return leaves_[handle]; }
  std::span<Param> params() { return params_; }
  std::span<const Param> params() const { return params_; }
  /// Throws RequestError naming the nearest when there is none of this name.
  const Param& find(const std::string& name) const;
  Tensor value(const Param& param) const { return part(values_, param); }
  Tensor grad(const Param& param) const { return part(grads_, param); }
  /// A frozen parameter gets no gradient; the rest of a fused matrix does.
  void freeze(const std::string& name, bool frozen = true);

  /// The flat buffers, gaps (always zero) included.
  Tensor values() const { return flat(values_); }
  Tensor grads() const { return flat(grads_); }
  Index count() const;  // elements of all parameters, without gaps

  /// The next backward replaces all gradients.
  void begin_accumulation();
  /// After the last backward of a step: gradients that nothing reached, and those of frozen
  /// parameters, become zero.
  void finish_accumulation();

 private:
  Tensor part(const Buffer& buffer, const Param& param) const;
  Tensor flat(const Buffer& buffer) const;

  std::vector<Param> params_;
  std::unordered_set<std::string> names_;
  std::vector<Shape> leaf_shapes_;
  std::deque<Leaf> leaves_;
  Buffer values_;
  Buffer grads_;
  Index total_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace norma
