// A problem with memory: inputs filled for one type and layout, run on a tape of its own.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "norma/checks/run_case.h"
#include "norma/tensor/buffer.h"

namespace norma::checks {

/// Root mean square of all elements.
double rms(const Tensor& t);

class Instance {
 public:
  struct Layout {
    DType dtype = DType::f32;
    Index row_padding = 0;  // > 0: data inputs and seeds have strided rows
  };

  Instance(const Problem& problem, const CaseId& id, Layout layout);

  /// Runs the function forward on a fresh tape and keeps the outputs.
  void forward(const Problem::Function& function) { timed_forward(function); }
  /// The same; returns the seconds that the function itself took.
  double timed_forward(const Problem::Function& function);
  /// Runs backward from all outputs with the case's random seeds, adding to the gradients.
  void backward(bool keep);
  /// Σ ⟨seed, output⟩ of the last forward.
  double projected() const;
  /// Σ |seed · output|: how large the terms of that sum are.
  double projected_magnitude() const;
  void clear_grads();

  Tape& tape() { return tape_; }
  std::size_t input_count() const { return leaves_.size(); }
  bool differentiable(std::size_t i) const { return leaves_[i].needs_grad; }
  const Tensor& input(std::size_t i) const { return leaves_[i].value; }
  const Tensor& grad(std::size_t i) const { return leaves_[i].grad; }
  const std::vector<OwnedTensor>& outputs() const { return outputs_; }
  /// Natural size of the gradient of a data input of an op that ignores scale: |dy| over the size
  /// of the smallest row.
  double natural_grad(std::size_t i) const;
  double summed_size(std::size_t i) const { return problem_.inputs[i].summed_size; }

 private:
  template <class F>
  double sum_of_products(F&& term) const;

  const Problem& problem_;
  CaseId id_;
  Layout layout_;
  Tape tape_;
  std::deque<OwnedTensor> memory_;
  std::deque<Leaf> leaves_;
  std::vector<Var> roots_;
  std::vector<OwnedTensor> outputs_;
  std::vector<OwnedTensor> seeds_;
};

}  // namespace norma::checks
