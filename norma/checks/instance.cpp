#include "norma/checks/instance.h"

#include <algorithm>
#include <cmath>

#include "norma/base/clock.h"
#include "norma/base/rng.h"
#include "norma/tensor/plain.h"

namespace norma::checks {

double rms(const Tensor& t) {
  double sum = 0;
  for (Index r = 0; r < t.shape.rows(); ++r) {
    for (Index c = 0; c < t.shape.cols(); ++c) sum += value_at(t, r, c) * value_at(t, r, c);
  }
  return std::sqrt(sum / static_cast<double>(t.count()));
}

namespace {

/// The case's value of input `which` at (row, col), rounded to f32 so that every type sees the
/// same.
double case_value(
    const InputSpec& spec, const CaseId& id, std::size_t which, Index row, Index col) {
  const RandomKey key{id.seed, which + 1};
  const Index cols = spec.shape.cols();
  const auto at = static_cast<std::uint64_t>(row * cols + col);
  if (spec.role == Role::ids) return static_cast<double>(random_word(key, at) % spec.limit);
  const bool data = spec.role == Role::data;
  const bool constant = data && id.condition == Condition::constant_rows;
  double value =
      spec.center + spec.spread * normal_at(key, constant ? static_cast<std::uint64_t>(row) : at);
  if (data && id.condition == Condition::offset) value += kOffset;
  if (data && id.condition == Condition::huge) value *= kHuge;
  if (data && id.condition == Condition::tiny) value *= kTiny;
  if (spec.role == Role::gain && id.condition == Condition::zero_gain) value = 0;
  return static_cast<double>(static_cast<float>(value));
}

/// A tensor whose rows are `padding` elements further apart than they are wide.
OwnedTensor padded(const Shape& shape, DType dtype, Index padding) {
  OwnedTensor owned(padding == 0 ? shape : shape.with_last(shape.cols() + padding), dtype);
  if (padding > 0) owned.tensor = owned.tensor.columns(0, shape.cols());
  return owned;
}

}  // namespace

Instance::Instance(const Problem& problem, const CaseId& id, Layout layout)
    : problem_(problem), id_(id), layout_(layout) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    const InputSpec& spec = problem.inputs[i];
    const DType dtype = spec.role == Role::ids ? DType::i32 : layout.dtype;
    const Index padding = spec.role == Role::data ? layout.row_padding : 0;
    Leaf leaf;
    leaf.needs_grad = spec.differentiable && spec.role != Role::ids;
    memory_.push_back(padded(spec.shape, dtype, padding));
    leaf.value = memory_.back().tensor;
    if (leaf.needs_grad) {
      memory_.push_back(padded(spec.shape, dtype, padding));
      leaf.grad = memory_.back().tensor;
    }
    for (Index r = 0; r < spec.shape.rows(); ++r) {
      for (Index c = 0; c < spec.shape.cols(); ++c) {
        set_value(leaf.value, r, c, case_value(spec, id, i, r, c));
      }
    }
    leaves_.push_back(leaf);
  }
}

double Instance::timed_forward(const Problem::Function& function) {
  tape_.reset();
  std::vector<Var> vars;
  for (Leaf& leaf : leaves_) vars.push_back(tape_.watch(leaf));
  const Stopwatch watch;
  roots_ = function(vars);
  const double seconds = watch.seconds();
  outputs_.clear();
  for (const Var root : roots_) {
    outputs_.emplace_back(root.shape(), root.dtype());
    copy(root.value(), outputs_.back().tensor);
  }
  if (!seeds_.empty()) return seconds;
  for (std::size_t k = 0; k < roots_.size(); ++k) {
    seeds_.push_back(padded(roots_[k].shape(), roots_[k].dtype(), layout_.row_padding));
    const Tensor& seed = seeds_.back().tensor;
    const RandomKey key{id_.seed, 1000 + k};
    for (Index r = 0; r < seed.shape.rows(); ++r) {
      for (Index c = 0; c < seed.shape.cols(); ++c) {
        const double value = normal_at(key, static_cast<std::uint64_t>(r * seed.shape.cols() + c));
        set_value(seed, r, c, static_cast<double>(static_cast<float>(value)));
      }
    }
  }
  return seconds;
}

void Instance::backward(bool keep) {
  std::vector<Tensor> seeds;
  seeds.reserve(seeds_.size());
  for (const OwnedTensor& seed : seeds_) seeds.push_back(seed.tensor);
  tape_.backward(roots_, seeds, {.keep = keep});
}

template <class F>
double Instance::sum_of_products(F&& term) const {
  double sum = 0;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const Tensor& y = outputs_[k].tensor;
    const Tensor& d = seeds_[k].tensor;
    for (Index r = 0; r < y.shape.rows(); ++r) {
      for (Index c = 0; c < y.shape.cols(); ++c) sum += term(value_at(y, r, c) * value_at(d, r, c));
    }
  }
  return sum;
}

double Instance::projected() const {
  return sum_of_products([](double product) { return product; });
}

double Instance::projected_magnitude() const {
  return sum_of_products([](double product) { return std::abs(product); });
}

double Instance::natural_grad(std::size_t i) const {
  if (problem_.inputs[i].role != Role::data) return 0;
  double seed = 0;
  for (const OwnedTensor& s : seeds_) seed = std::max(seed, rms(s.tensor));
  const Tensor& x = leaves_[i].value;
  double smallest = rms(x);
  for (Index r = 0; r < x.shape.rows(); ++r) {
    double sum = 0;
    for (Index c = 0; c < x.shape.cols(); ++c) sum += value_at(x, r, c) * value_at(x, r, c);
    smallest = std::min(smallest, std::sqrt(sum / static_cast<double>(x.shape.cols())));
  }
  return seed / std::max(smallest, 1e-2);  // below that an eps may rule instead of the scale
}

void Instance::clear_grads() {
  for (Leaf& leaf : leaves_) {
    leaf.fresh = true;
    if (leaf.needs_grad) fill(leaf.grad, 0);
  }
}

}  // namespace norma::checks
