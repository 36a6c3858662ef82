// Parameters of a model: values in one buffer, gradients in another, so that clipping, optimizers
// and reductions run over long contiguous spans. Every parameter keeps its own name, rows and tags
// even where several are multiplied as one matrix.
//
// In bf16 a step changes f32 values (the masters), and products read copies rounded to bf16.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "norma/autograd/var.h"
#include "norma/base/bf16.h"
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

/// What stands behind weights that are multiplied in bf16.
enum class Masters : std::uint8_t {
  f32,   // values in f32, from which the working copies are rounded
  none,  // as if there were only the bf16 ones: after every step the values are what the copies
         // hold
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
  /// With bf16 values and gradients are f32; the leaves of two and more dimensions are working
  /// copies in bf16, those of vectors the values themselves.
  void allocate(DType dtype, Device device = {}, Masters masters = Masters::f32);

  Leaf& leaf(std::size_t handle) { return leaves_[handle]; }
  std::span<Param> params() { return params_; }
  std::span<const Param> params() const { return params_; }
  /// Throws RequestError naming the nearest when there is none of this name.
  const Param& find(const std::string& name) const;
  Tensor value(const Param& param) const { return part(values_, param, wide(dtype_)); }
  Tensor grad(const Param& param) const { return part(grads_, param, wide(dtype_)); }
  /// A frozen parameter gets no gradient; the rest of a fused matrix does.
  void freeze(const std::string& name, bool frozen = true);

  /// The flat buffers, gaps (always zero) included.
  Tensor values() const { return flat(values_, wide(dtype_)); }
  Tensor grads() const { return flat(grads_, wide(dtype_)); }
  /// The working copies, where the values are; absent unless in bf16.
  Tensor copies() const;
  Index count() const;  // elements of all parameters, without gaps
  /// What products are taken in: the type that allocate() was asked for.
  DType dtype() const { return dtype_; }
  Device device() const { return values_.device(); }

  /// Makes the working copies from the values. For whoever changes values without a step.
  void refresh_copies();
  /// After a step: on a GPU it has written the copies itself. Queued, as all of the step.
  void finish_step();

  /// The next backward replaces all gradients.
  void begin_accumulation();
  /// After the last backward of a step: gradients that nothing reached, and those of frozen
  /// parameters, become zero.
  void finish_accumulation();

 private:
  static Tensor part(const Buffer& buffer, const Param& param, DType dtype);
  Tensor flat(const Buffer& buffer, DType dtype) const;
  void round_values();

  std::vector<Param> params_;
  std::unordered_set<std::string> names_;
  std::vector<Shape> leaf_shapes_;
  std::deque<Leaf> leaves_;
  Buffer values_;
  Buffer grads_;
  Buffer copies_;  // offsets as in values_; what belongs to vectors lies idle
  Index total_ = 0;
  DType dtype_ = DType::f32;
  Masters masters_ = Masters::f32;
};

}  // namespace norma
