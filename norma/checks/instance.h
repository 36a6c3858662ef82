// A problem with memory: inputs filled for one type, layout and device, run on a tape of its own.
// On a GPU the inputs are filled on the host and copied once, and results come back whole; nothing
// is read or written there element by element.
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
    DType dtype = DType::f32;  // of data; Storage says how the rest is kept
    Device device = {};
    Index row_padding = 0;  // > 0: data inputs and seeds have strided rows
    /// The type to whose grid values are rounded, whatever they are held in: the truth sees what
    /// the type under test can see.
    DType grid = DType::f32;
    /// > 0: only about so many elements of a tensor are drawn, and its rows repeat. For timing.
    Index drawn = 0;
  };

  Instance(const Problem& problem, const CaseId& id, Layout layout);

  /// Runs the function forward on a fresh tape and keeps the outputs.
  void forward(const Problem::Function& function) { timed_forward(function); }
  /// The same; returns the seconds that the function itself took on the CPU.
  double timed_forward(const Problem::Function& function);
  /// Runs backward from all outputs with the case's random seeds, adding to the gradients.
  void backward(bool keep);
  /// For timing: the passes alone. Nothing is copied, and gradients are set, not added.
  void pass_forward(const Problem::Function& function);
  void pass_backward();

  /// Σ ⟨seed, output⟩ of the last forward.
  double projected() const;
  /// Σ |seed · output|: how large the terms of that sum are.
  double projected_magnitude() const;
  /// Makes every gradient not a number, so that what backward leaves out is seen.
  void clear_grads();

  Tape& tape() { return tape_; }
  Condition condition() const { return id_.condition; }
  const std::string& input_name(std::size_t i) const { return problem_.inputs[i].name; }
  std::size_t input_count() const { return leaves_.size(); }
  bool differentiable(std::size_t i) const { return leaves_[i].needs_grad; }
  /// On the host, like all that follow.
  const Tensor& input(std::size_t i) const { return inputs_[i].home; }
  const Tensor& grad(std::size_t i) const { return grads_[i].home; }
  /// Whether this gradient is kept wider than the data.
  bool wide_grad(std::size_t i) const { return grads_[i].home.dtype != layout_.dtype; }
  const std::vector<OwnedTensor>& outputs() const { return outputs_; }
  /// Bytes of the outputs, after any forward pass.
  double output_bytes() const;
  /// On a GPU: whether the input there is no longer what was copied to it.
  bool input_changed(std::size_t i) const;
  /// Whether somebody wrote between the rows of a gradient.
  bool gap_written(std::size_t i) const;
  /// Natural size of the gradient of a data input of an op that ignores scale: |dy| over the size
  /// of the smallest row.
  double natural_grad(std::size_t i) const;
  double summed_size(std::size_t i) const { return problem_.inputs[i].summed_size; }

 private:
  /// A tensor with its memory: where ops see it, and on the host.
  struct Place {
    OwnedTensor host;
    OwnedTensor gpu;  // empty on the CPU
    Tensor there;     // a view of one of them, without the padding
    Tensor home;
    void send() const;
    void fetch() const;
  };
  Place place(const Shape& shape, DType dtype, Index padding) const;
  /// Fills the first rows with value(row, col) and the others with these again.
  template <class F>
  void draw(const Place& to, F&& value) const;
  double record(const Problem::Function& function);
  void make_seeds();
  template <class F>
  double sum_of_products(F&& term) const;

  const Problem& problem_;
  CaseId id_;
  Layout layout_;
  Tape tape_;
  std::deque<Leaf> leaves_;
  std::vector<Place> inputs_;
  std::vector<Place> grads_;  // empty places where there is none
  std::vector<Var> roots_;
  std::vector<OwnedTensor> outputs_;
  std::vector<Place> seeds_;
};

}  // namespace norma::checks
