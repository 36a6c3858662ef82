#include "norma/checks/instance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "norma/base/bf16.h"
#include "norma/base/clock.h"
#include "norma/base/rng.h"
#include "norma/device/device.h"
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

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

/// Every type sees f32 at most.
double on_grid(double value, DType grid) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(grid == DType::bf16 ? to_float(to_bf16(narrow)) : narrow);
}

/// The case's value of input `which` at (row, col).
double case_value(
    const InputSpec& spec, const CaseId& id, DType grid, std::size_t which, Index row, Index col) {
  const RandomKey key{id.seed, which + 1};
  const Index cols = spec.shape.cols();
  const auto at = static_cast<std::uint64_t>(row * cols + col);
  if (spec.role == Role::ids) {
    if (spec.some_ignored && at % 3 == 1) return -1;
    return static_cast<double>(random_word(key, at) % spec.limit);
  }
  const bool data = spec.role == Role::data;
  const bool constant = data && id.condition == Condition::constant_rows;
  double value =
      spec.center + spec.spread * normal_at(key, constant ? static_cast<std::uint64_t>(row) : at);
  if (data && id.condition == Condition::offset) {
    value += grid == DType::bf16 ? kOffsetBf16 : kOffset;
  }
  if (data && id.condition == Condition::huge) value *= kHuge;
  if (data && id.condition == Condition::tiny) value *= kTiny;
  if (spec.role == Role::gain && id.condition == Condition::zero_gain) value = 0;
  return on_grid(value, storage_of(spec) == Storage::vector ? DType::f32 : grid);
}

DType value_type(const InputSpec& spec, DType data) {
  if (spec.role == Role::ids) return DType::i32;
  return storage_of(spec) == Storage::vector ? wide(data) : data;
}
DType grad_type(const InputSpec& spec, DType data) {
  return storage_of(spec) == Storage::values ? data : wide(data);
}

bool on_gpu(const Tensor& t) { return t.device.kind == DeviceKind::cuda; }

/// A copy on the host, contiguous.
OwnedTensor brought_home(const Tensor& t) {
  OwnedTensor home(t.shape, t.dtype);
  if (on_gpu(t) && t.contiguous()) {
    device::copy_out(home.tensor.data, t.data, t.bytes());
  } else {
    copy(t, home.tensor);
  }
  return home;
}

}  // namespace

void Instance::Place::send() const {
  if (on_gpu(there)) device::copy_in(gpu.buffer.data(), host.buffer.data(), host.buffer.bytes());
}

void Instance::Place::fetch() const {
  if (on_gpu(there)) device::copy_out(host.buffer.data(), gpu.buffer.data(), host.buffer.bytes());
}

/// Rows are `padding` elements further apart than they are wide, and the gaps are not numbers.
Instance::Place Instance::place(const Shape& shape, DType dtype, Index padding) const {
  const Shape whole = padding == 0 ? shape : shape.with_last(shape.cols() + padding);
  Place made;
  made.host = OwnedTensor(whole, dtype);
  made.home = made.host.tensor;
  if (layout_.device.kind == DeviceKind::cuda) {
    made.gpu = OwnedTensor(whole, dtype, layout_.device);
    made.there = made.gpu.tensor;
  } else {
    made.there = made.home;
  }
  if (padding > 0) {
    fill(made.home, kNotANumber);
    made.home = made.home.columns(0, shape.cols());
    made.there = made.there.columns(0, shape.cols());
  }
  return made;
}

template <class F>
void Instance::draw(const Place& to, F&& value) const {
  const Tensor& t = to.home;
  const Index cols = t.shape.cols();
  const Index rows = t.shape.rows();
  const Index drawn = layout_.drawn == 0 ? rows : std::min(rows, layout_.drawn / cols + 1);
  for (Index r = 0; r < drawn; ++r) {
    for (Index c = 0; c < cols; ++c) set_value(t, r, c, value(r, c));
  }
  const auto stride = static_cast<std::size_t>(t.row_stride) * size_of(t.dtype);
  auto* const bytes = static_cast<std::byte*>(t.data);
  for (Index r = drawn; r < rows; ++r) {
    std::memcpy(bytes + static_cast<std::size_t>(r) * stride,
                bytes + static_cast<std::size_t>(r % drawn) * stride,
                static_cast<std::size_t>(cols) * size_of(t.dtype));
  }
  to.send();
}

Instance::Instance(const Problem& problem, const CaseId& id, Layout layout)
    : problem_(problem), id_(id), layout_(layout), tape_(layout.device) {
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    const InputSpec& spec = problem.inputs[i];
    const Index padding = spec.role == Role::data ? layout.row_padding : 0;
    Leaf leaf;
    leaf.needs_grad = spec.differentiable && spec.role != Role::ids;
    inputs_.push_back(place(spec.shape, value_type(spec, layout.dtype), padding));
    leaf.value = inputs_.back().there;
    grads_.emplace_back();
    if (leaf.needs_grad) {
      grads_.back() = place(spec.shape, grad_type(spec, layout.dtype), padding);
      if (padding > 0) grads_.back().send();  // the gaps
      leaf.grad = grads_.back().there;
    }
    draw(inputs_.back(),
         [&](Index r, Index c) { return case_value(spec, id, layout.grid, i, r, c); });
    leaves_.push_back(leaf);
  }
}

double Instance::record(const Problem::Function& function) {
  tape_.reset();
  std::vector<Var> vars;
  for (Leaf& leaf : leaves_) vars.push_back(tape_.watch(leaf));
  const Stopwatch watch;
  roots_ = function(vars);
  return watch.seconds();
}

void Instance::make_seeds() {
  if (!seeds_.empty()) return;
  for (std::size_t k = 0; k < roots_.size(); ++k) {
    seeds_.push_back(place(roots_[k].shape(), roots_[k].grad_dtype(), layout_.row_padding));
    const RandomKey key{id_.seed, 1000 + k};
    const Index cols = roots_[k].shape().cols();
    draw(seeds_.back(), [&](Index r, Index c) {
      return on_grid(normal_at(key, static_cast<std::uint64_t>(r * cols + c)), layout_.grid);
    });
  }
}

double Instance::timed_forward(const Problem::Function& function) {
  const double seconds = record(function);
  outputs_.clear();
  for (const Var root : roots_) outputs_.push_back(brought_home(root.value()));
  make_seeds();
  return seconds;
}

void Instance::pass_forward(const Problem::Function& function) {
  record(function);
  make_seeds();
}

void Instance::backward(bool keep) {
  std::vector<Tensor> seeds;
  seeds.reserve(seeds_.size());
  for (const Place& seed : seeds_) seeds.push_back(seed.there);
  tape_.backward(roots_, seeds, {.keep = keep});
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (!leaves_[i].needs_grad) continue;
    grads_[i].fetch();
    if (leaves_[i].fresh) fill(grads_[i].home, 0);  // nothing came here
  }
}

void Instance::pass_backward() {
  std::vector<Tensor> seeds;
  seeds.reserve(seeds_.size());
  for (const Place& seed : seeds_) seeds.push_back(seed.there);
  for (Leaf& leaf : leaves_) leaf.fresh = true;
  tape_.backward(roots_, seeds, {.keep = true});
}

template <class F>
double Instance::sum_of_products(F&& term) const {
  double sum = 0;
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const Tensor& y = outputs_[k].tensor;
    const Tensor& d = seeds_[k].home;
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
  for (const Place& s : seeds_) seed = std::max(seed, rms(s.home));
  const Tensor& x = inputs_[i].home;
  double smallest = rms(x);
  for (Index r = 0; r < x.shape.rows(); ++r) {
    double sum = 0;
    for (Index c = 0; c < x.shape.cols(); ++c) sum += value_at(x, r, c) * value_at(x, r, c);
    smallest = std::min(smallest, std::sqrt(sum / static_cast<double>(x.shape.cols())));
  }
  return seed / std::max(smallest, 1e-2);  // below that an eps may rule instead of the scale
}

double Instance::output_bytes() const {
  double bytes = 0;
  for (const Var root : roots_) {
    bytes += static_cast<double>(root.shape().count()) * static_cast<double>(size_of(root.dtype()));
  }
  return bytes;
}

void Instance::clear_grads() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    leaves_[i].fresh = true;
    if (leaves_[i].needs_grad) fill(leaves_[i].grad, kNotANumber);
  }
}

bool Instance::input_changed(std::size_t i) const {
  const Place& place = inputs_[i];
  if (!on_gpu(place.there)) return false;
  std::vector<std::byte> now(place.host.buffer.bytes());
  device::copy_out(now.data(), place.gpu.buffer.data(), now.size());
  return std::memcmp(now.data(), place.host.buffer.data(), now.size()) != 0;
}

bool Instance::gap_written(std::size_t i) const {
  const Tensor& whole = grads_[i].host.tensor;
  for (Index r = 0; r < whole.shape.rows(); ++r) {
    for (Index c = grads_[i].home.shape.cols(); c < whole.shape.cols(); ++c) {
      if (!std::isnan(value_at(whole, r, c))) return true;
    }
  }
  return false;
}

}  // namespace norma::checks
