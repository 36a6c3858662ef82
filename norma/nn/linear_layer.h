// One linear map, or several that read the same input and share one product.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "norma/autograd/tape.h"
#include "norma/nn/param_store.h"
#include "norma/nn/scheme.h"

namespace norma {

class LinearLayer {
 public:
  struct Part {
    std::string name;  // "blocks.3.attn.q": parameters are name.weight, name.bias, name.magnitude
    Index out = 0;
    ParamClass kind = ParamClass::other;
    bool bias = false;
  };
  LinearLayer() = default;
  LinearLayer(std::span<const Part> parts, Index in, const Scheme& scheme, ParamStore& params);

  /// One result per part, (..., out).
  void apply(Tape& tape, Var x, std::span<Var> results) const;
  /// For a layer of one part; the product adds its result to `onto` where it is given.
  Var apply(Tape& tape, Var x, Var onto = {}) const;
  /// Products that the parts take together.
  std::size_t groups() const { return groups_.size(); }
  /// What a layer of one group without a bias multiplies by: its parts' rows below each other.
  Var weight(Tape& tape) const { return weight(tape, groups_.front()); }
  bool has_bias() const { return groups_.front().has_bias; }

 private:
  /// Parts that are multiplied as one matrix: same constraint, all or none with a bias.
  struct Group {
    std::size_t weight = 0;
    std::size_t bias = 0;
    std::size_t magnitude = 0;
    bool has_bias = false;
    WeightRule rule = WeightRule::free;
    VectorAxis axis = VectorAxis::rows;
    std::vector<Index> widths;
  };
  Var weight(Tape& tape, const Group& group) const;
  Var product(Tape& tape, const Group& group, Var x, Var onto = {}) const;

  std::vector<Group> groups_;
  ParamStore* params_ = nullptr;
};

/// Tags of a matrix of this class under a scheme.
ParamTags matrix_tags(ParamClass kind, const Scheme& scheme);

/// What the forward pass multiplies by: the leaf itself, or its normalized form.
Var effective_weight(Var weight, Var magnitude, WeightRule rule, VectorAxis axis);

}  // namespace norma
