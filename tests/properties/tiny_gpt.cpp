#include "tests/properties/tiny_gpt.h"

#include <algorithm>
#include <cmath>

#include "norma/base/read_fields.h"
#include "norma/base/rng.h"
#include "norma/nn/catalogue.h"
#include "norma/optim/constraints.h"
#include "norma/tensor/plain.h"

namespace norma::test {

namespace {

const ModelSpec kSizes{
    .layers = 2, .width = 48, .heads = 4, .kv_heads = 2, .context = TinyGpt::kTokens, .vocab = 61};

std::uint64_t stream_of(const std::string& name) {
  std::uint64_t stream = 17;
  for (const char c : name) stream = stream * 131 + static_cast<unsigned char>(c);
  return stream;
}

void draw_ids(const Tensor& to, Index vocab, std::uint64_t stream) {
  std::uint64_t at = 0;
  for (std::int32_t& id : to.elements<std::int32_t>()) {
    id = static_cast<std::int32_t>(random_word({5, stream}, at++) %
                                   static_cast<std::uint32_t>(vocab));
  }
}

Tensor row_range(const Tensor& of, Index first, Index count) {
  auto* data = static_cast<std::byte*>(of.data) +
               static_cast<std::size_t>(first * of.row_stride) * size_of(of.dtype);
  return Tensor(data, {count, of.shape.cols()}, of.dtype);
}

}  // namespace

Scheme scheme_of(const std::string& toml) {
  return read_scheme(scheme_settings(Settings::from_toml(toml, "test")));
}

std::vector<std::string> text_schemes() {
  std::vector<std::string> names = scheme_names();
  names.erase(std::remove(names.begin(), names.end(), "dual-patchnorm"), names.end());
  return names;
}

TinyGpt::TinyGpt(const std::string& scheme_toml, const TinyGptSpec& spec) {
  const Scheme scheme = scheme_of(scheme_toml);
  ModelSpec sizes = kSizes;
  SettingsReader(scheme.wishes).read("model", sizes);
  const Settings given = Settings::from_toml(spec.model, "test");
  SettingsReader reader(given);
  reader.read("", sizes);
  reader.refuse_unknown();

  model_ = std::make_unique<Gpt>(sizes, scheme, params_);
  params_.allocate(spec.dtype);
  model_->allocate(spec.dtype);
  if (spec.at_start) {
    model_->init(7);
    apply_constraints(params_);
  } else {
    randomize(params_);
  }
  ids = OwnedTensor({kBatch, kTokens}, DType::i32);
  targets = OwnedTensor({kBatch * kTokens}, DType::i32);
  draw_ids(ids.tensor, sizes.vocab, 1);
  draw_ids(targets.tensor, sizes.vocab, 2);
}

Tensor TinyGpt::value_rows(const std::string& name, Index first, Index count) const {
  return row_range(value(name), first, count);
}

Tensor TinyGpt::grad_rows(const std::string& name, Index first, Index count) const {
  return row_range(grad(name), first, count);
}

int TinyGpt::scale_all(const std::string& ending, double factor) {
  int found = 0;
  for (const Param& param : params_.params()) {
    if (!param.name.ends_with(ending)) continue;
    scale(params_.value(param), factor);
    ++found;
  }
  return found;
}

OwnedTensor TinyGpt::logits() {
  tape_.reset();
  const Var z =
      tape_.evaluate([&] { return model_->logits(tape_, ids.tensor, pass_, lengths.tensor); });
  return copy_of(z.value().reshaped({kBatch * kTokens, spec().vocab}));
}

std::vector<OwnedTensor> TinyGpt::streams() {
  tape_.reset();
  std::vector<Var> streams;
  Pass pass = pass_;
  pass.streams = &streams;
  model_->logits(tape_, ids.tensor, pass, lengths.tensor);
  std::vector<OwnedTensor> copies;
  copies.reserve(streams.size());
  for (const Var& stream : streams) {
    copies.push_back(copy_of(stream.value().reshaped({kBatch * kTokens, spec().width})));
  }
  return copies;
}

double TinyGpt::backward() {
  tape_.reset();
  params_.begin_accumulation();
  const Var loss = model_->loss(tape_, ids.tensor, targets.tensor, {}, pass_, lengths.tensor).loss;
  const double value = value_at(loss.value(), 0, 0);
  tape_.backward(loss);
  params_.finish_accumulation();
  return value;
}

double TinyGpt::loss() {
  tape_.reset();
  const GptLoss result = model_->loss(tape_, ids.tensor, targets.tensor, {}, pass_, lengths.tensor);
  return value_at(result.loss.value(), 0, 0);
}

void randomize(ParamStore& params) {
  for (const Param& param : params.params()) {
    const Tensor value = params.value(param);
    const std::uint64_t stream = stream_of(param.name);
    if (param.shape.rank() > 1) {
      fill_normal(value, stream, 1 / std::sqrt(static_cast<double>(param.shape.cols())));
      continue;
    }
    // A spread of 0.6: about one factor in twenty is negative.
    fill_normal(value, stream, param.start == 0 ? 0.3 : 0.6 * param.start);
    for (Index i = 0; i < value.count(); ++i) {
      set_value(value, 0, i, param.start + value_at(value, 0, i));
    }
  }
  apply_constraints(params);
}

double norm(const Tensor& t) { return std::sqrt(dot(t, t)); }

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for_each_place(b.shape, [&](Index r, Index c) {
    sum += std::pow(value_at(a, r, c) - value_at(b, r, c), 2);
  });
  return std::sqrt(sum / dot(b, b));
}

double cosine(const Tensor& a, const Tensor& b) { return dot(a, b) / (norm(a) * norm(b)); }

double gradient_distance(const TinyGpt& got,
                         const TinyGpt& want,
                         const std::vector<std::string>& except) {
  double largest = 0;
  for (const Param& param : want.params().params()) {
    largest = std::max(largest, norm(want.params().grad(param)));
  }
  double worst = 0;
  for (const Param& param : want.params().params()) {
    if (std::find(except.begin(), except.end(), param.name) != except.end()) continue;
    OwnedTensor gap = copy_of(got.grad(param.name));
    const Tensor expected = want.params().grad(param);
    add_scaled(expected, -1, gap.tensor);
    worst = std::max(worst, norm(gap.tensor) / std::max(norm(expected), 1e-3 * largest));
  }
  return worst;
}

}  // namespace norma::test
