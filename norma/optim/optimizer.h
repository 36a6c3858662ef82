// An optimizer steps the parameters of one store. It reads their tags and nothing else:
// learning-rate scale, decay, class and constraint. docs/optimizers.md has the formulas.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "norma/optim/job.h"
#include "norma/optim/optim_spec.h"
#include "norma/tensor/buffer.h"

namespace norma {

struct StepSpec {
  double lr = 0;          // of this step, from the schedule
  double grad_scale = 1;  // multiplies all gradients: the clipping factor
};

/// A view of one state. Copying it out saves it; copying the same bits in restores it.
struct StateTensor {
  std::string name;  // "<parameter>.m"; "step" is the number of steps done
  Tensor tensor;
};

class Optimizer {
 public:
  /// Parameters that are frozen now are never touched. Constraints that keep a norm (frobenius,
  /// spectral) and the Hyperball keep what the weights have now.
  Optimizer(ParamStore& params, const OptimSpec& spec);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step, after which every constraint holds. Gradients may be changed by it. Allocates
  /// nothing. Throws RequestError for another store than the optimizer was made for, and for a
  /// learning rate or factor that is not a number of at least 0.
  void step(ParamStore& params, StepSpec step);

  /// The two parts of a step, for a GPU that replays the second one as a graph: prepare() works out
  /// the numbers of the next step and sends them; apply() reads them where the weights are, and
  /// neither waits nor allocates. `clip` is a factor of all gradients beside the weights
  /// (Clipper::grad_scale), null for none. Every apply needs a prepare of its own.
  void prepare(StepSpec step);
  void apply(ParamStore& params, const double* clip = nullptr);

  /// Everything that a resumed run needs, in an order that depends on parameters and settings
  /// alone.
  std::vector<StateTensor> state();
  /// Bytes of state held for parameters; gaps between them and the step counter are not counted.
  std::size_t state_bytes() const;
  /// Bytes that its steps need besides, where the weights are.
  std::size_t scratch_bytes() const;
  Index steps_done() const { return static_cast<Index>(steps_); }
  /// With every number filled in.
  const OptimSpec& spec() const { return spec_; }

 private:
  using Batch = std::vector<std::size_t>;  // of jobs_

  void plan(const ParamStore& params);
  void require_store(const ParamStore& params) const;
  void allocate(const ParamStore& params);
  void allocate_scratch(Device device);
  const Buffer& numbers_beside_weights() const;
  Place place_of(const Job& job, const ParamStore& params, const double* clip) const;
  void run(const Batch& batch, const ParamStore& params, const double* clip) const;
  void run_capped(const Job& job, const Place& place) const;

  OptimSpec spec_;
  RuleBook rules_;
  std::vector<Job> jobs_;
  std::vector<Batch> batches_;
  std::vector<std::string> names_;  // of all parameters
  std::vector<Shape> shapes_;
  std::vector<Index> offsets_;
  Index elements_ = 0;  // of the flat buffers
  DType dtype_;
  Buffer states_;
  Buffer scratch_;
  Buffer partials_;   // and the scalars of a place behind them
  Buffer numbers_;    // of this step, for all jobs, on the host
  Buffer sent_;       // the same on a GPU
  Buffer before_;     // the weights of one capped span before its step
  double steps_ = 0;  // a double, so that it can be a state tensor; exact up to 2^53
};

std::unique_ptr<Optimizer> make_optimizer(ParamStore& params, const OptimSpec& spec);

}  // namespace norma
