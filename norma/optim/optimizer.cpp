#include "norma/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/kernels/optimizer.h"
#include "norma/optim/constraints.h"
#include "norma/optim/step_elements.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

namespace {

Buffer buffer_of(Index count, std::size_t size, Device device) {
  return Buffer(static_cast<std::size_t>(count) * size, device);
}

void require_number(const char* what, double value) {
  if (std::isfinite(value) && value >= 0) return;
  throw RequestError(say("optimizer: ", what, " must be a number of at least 0, got ", value, "."));
}

}  // namespace

RuleBook::RuleBook(const OptimSpec& spec) : spec_(spec) {
  switch (spec.name) {
    case OptimName::muon:
      main_ = make_adam_rule_beside_muon(spec);
      hidden_ = make_muon_rule(spec);
      break;
    case OptimName::lars:
      main_ = make_lars_rule(spec);
      break;
    case OptimName::riemannian_adam:
      main_ = make_elementwise_rule(spec);
      hidden_ = make_sphere_rule(spec);
      break;
    default:
      main_ = make_elementwise_rule(spec);
      if (spec.hyperball) hidden_ = make_hyperball_adam_rule(spec);
  }
}

const StepRule& RuleBook::rule_for(const Param& param) const {
  if (!hidden_) return *main_;
  if (spec_.name == OptimName::riemannian_adam) {
    return param.tags.constraint == Constraint::unit ? *hidden_ : *main_;
  }
  const bool head = spec_.name == OptimName::adamw && param.tags.kind == ParamClass::head;
  const bool matrix = param.shape.rank() >= 2 && (is_hidden_matrix(param.tags.kind) || head);
  return matrix ? *hidden_ : *main_;
}

Optimizer::Optimizer(ParamStore& params, const OptimSpec& spec)
    : spec_(resolved(spec)), rules_(spec_), dtype_(params.values().dtype) {
  if (params.values().data == nullptr) {
    throw Error("parameters must be allocated before their optimizer is made.");
  }
  plan(params);
  allocate(params);
  for (const Job& job : jobs_) {
    const Place place = place_of(job, params, nullptr);
    job.rule->start(place);
    start_constraint(place, job.constraint_slot);
  }
}

void Optimizer::plan(const ParamStore& params) {
  elements_ = params.values().count();
  for (const Param& param : params.params()) {
    names_.push_back(param.name);
    shapes_.push_back(param.shape);
    offsets_.push_back(param.offset);
  }
  jobs_ = jobs_of(params, spec_, rules_);
  batches_ = batches_of(jobs_);
}

void Optimizer::allocate(const ParamStore& params) {
  const std::size_t size = size_of(dtype_);
  std::size_t bytes = 0;
  std::size_t number_bytes = 0;
  Index pieces = 0;
  Index capped = 0;
  for (Job& job : jobs_) {
    job.slots = job.rule->slots(job.span);
    job.constraint_slot = job.slots.size();
    for (const StateSlot& slot : constraint_slots(job.span)) job.slots.push_back(slot);
    for (std::size_t i = 0; i < job.slots.size(); ++i) {
      job.at[i] = bytes;
      bytes += aligned_bytes(static_cast<std::size_t>(job.slots[i].count) * size);
    }
    job.numbers_at = number_bytes;
    number_bytes += job.rule->number_bytes();
    pieces = std::max(pieces, kernels::norm_pieces(job.span.count));
    if (job.capped) capped = std::max(capped, job.span.count);
  }
  const Device device = params.values().device;
  states_ = Buffer(bytes, device);
  partials_ = buffer_of(pieces + Place::kScalars, sizeof(double), device);
  before_ = buffer_of(capped, size, device);
  numbers_ = Buffer(number_bytes);
  if (device.kind == DeviceKind::cuda) sent_ = Buffer(number_bytes, device);
  allocate_scratch(device);
}

void Optimizer::allocate_scratch(Device device) {
  std::size_t most = 0;
  for (const Batch& batch : batches_) {
    std::size_t bytes = 0;
    for (const std::size_t index : batch) {
      Job& job = jobs_[index];
      const Index elements = std::max(job.rule->scratch(job.span), constraint_scratch(job.span));
      job.scratch_at = bytes;
      bytes += aligned_bytes(static_cast<std::size_t>(elements) * size_of(dtype_));
    }
    most = std::max(most, bytes);
  }
  scratch_ = Buffer(most, device);
}

Place Optimizer::place_of(const Job& job, const ParamStore& params, const double* clip) const {
  const auto part = [&](const Tensor& flat) {
    auto* data = static_cast<std::byte*>(flat.data) +
                 static_cast<std::size_t>(job.span.offset) * size_of(flat.dtype);
    return Tensor(data, {job.span.count}, flat.dtype, flat.device);
  };
  Place place;
  place.span = &job.span;
  place.w = part(params.values());
  place.g = part(params.grads());
  place.scratch = scratch_.data() + job.scratch_at;
  place.scalars = reinterpret_cast<double*>(partials_.data());
  place.partials = place.scalars + Place::kScalars;
  place.numbers = numbers_beside_weights().data() + job.numbers_at;
  place.clip = clip;
  if (const Tensor copies = params.copies()) place.copy = copies.as<Bf16>() + job.span.offset;
  place.keep = job.capped ? kernels::Keep::nothing : keep_of(job.span.tags);
  for (std::size_t i = 0; i < job.slots.size(); ++i) place.slots[i] = states_.data() + job.at[i];
  place.rule_slots = job.constraint_slot;
  return place;
}

void Optimizer::step(ParamStore& params, StepSpec step) {
  require_store(params);
  prepare(step);
  apply(params);
}

void Optimizer::prepare(StepSpec step) {
  require_number("the learning rate", step.lr);
  require_number("the factor of the gradient", step.grad_scale);
  steps_ += 1;
  for (const Job& job : jobs_) {
    job.rule->prepare(job.span,
                      {.lr = step.lr * job.span.lr_factor * job.rule->lr_factor(),
                       .grad_scale = step.grad_scale,
                       .t = steps_done()},
                      numbers_.data() + job.numbers_at);
  }
  if (sent_.data() != nullptr && !planning()) {
    device::copy_in(sent_.data(), numbers_.data(), numbers_.bytes());
  }
}

void Optimizer::require_store(const ParamStore& params) const {
  const Tensor values = params.values();
  if (values.count() != elements_ || values.dtype != dtype_) {
    throw RequestError(say("optimizer: it was made for ",
                           elements_,
                           " elements of ",
                           name_of(dtype_),
                           ", got ",
                           values.count(),
                           " of ",
                           name_of(values.dtype),
                           "."));
  }
}

void Optimizer::apply(ParamStore& params, const double* clip) {
  require_store(params);
  for (const Batch& batch : batches_) run(batch, params, clip);
  params.finish_step();
}

void Optimizer::run(const Batch& batch, const ParamStore& params, const double* clip) const {
  const Job& first = jobs_[batch.front()];
  if (first.capped) return run_capped(first, place_of(first, params, clip));
  std::array<Place, kMostPlaces> room;
  for (std::size_t i = 0; i < batch.size(); ++i) room[i] = place_of(jobs_[batch[i]], params, clip);
  const std::span<const Place> places(room.data(), batch.size());
  first.rule->step(places);
  for (const Place& place : places) {
    if (!first.rule->keeps_vectors()) keep_vectors(place);
    keep_norm(place, first.constraint_slot);
  }
}

void Optimizer::run_capped(const Job& job, const Place& place) const {
  const Tensor before(before_.data(), {job.span.count}, dtype_, place.w.device);
  copy(place.w, before);
  job.rule->step({&place, 1});
  with_kernels(place.w, [&]<class T>(auto who, T) {
    kernels::run(who,
                 kernels::AngularCap<T>{.before = before.as<const T>(),
                                        .w = place.w.as<T>(),
                                        .layout = place.layout(),
                                        .cap = spec_.angular_cap,
                                        .copy = place.copy});
  });
}

std::vector<StateTensor> Optimizer::state() {
  std::vector<StateTensor> all;
  all.push_back({"step", Tensor(&steps_, {1}, DType::f64)});
  for (const Job& job : jobs_) {
    for (std::size_t i = 0; i < job.slots.size(); ++i) {
      const StateSlot& slot = job.slots[i];
      std::byte* data = states_.data() + job.at[i];
      const std::size_t owners = slot.per_element ? job.span.parameters : 1;
      for (std::size_t k = job.span.first; k < job.span.first + owners; ++k) {
        const auto skipped = static_cast<std::size_t>(offsets_[k] - job.span.offset);
        all.push_back({say(names_[k], ".", slot.name),
                       Tensor(data + skipped * size_of(dtype_),
                              slot.per_element ? shapes_[k] : Shape{slot.count},
                              dtype_,
                              states_.device())});
      }
    }
  }
  return all;
}

std::size_t Optimizer::state_bytes() const {
  Index elements = 0;
  for (const Job& job : jobs_) {
    Index own = 0;
    for (std::size_t k = 0; k < job.span.parameters; ++k)
      own += shapes_[job.span.first + k].count();
    for (const StateSlot& slot : job.slots) elements += slot.per_element ? own : slot.count;
  }
  return static_cast<std::size_t>(elements) * size_of(dtype_);
}

const Buffer& Optimizer::numbers_beside_weights() const {
  return states_.device().kind == DeviceKind::cuda ? sent_ : numbers_;
}

std::size_t Optimizer::scratch_bytes() const {
  return scratch_.bytes() + partials_.bytes() + before_.bytes() + numbers_beside_weights().bytes();
}

std::unique_ptr<Optimizer> make_optimizer(ParamStore& params, const OptimSpec& spec) {
  return std::make_unique<Optimizer>(params, spec);
}

}  // namespace norma
