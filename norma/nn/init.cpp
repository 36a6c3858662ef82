#include "norma/nn/init.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "norma/base/rng.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

constexpr double kGpt2Std = 0.02;

/// Where a matrix takes its values from: uniform in ±bound, or normal, cut where cut > 0.
struct Draw {
  double bound = 0;
  double std = 0;
  double cut = 0;  // in standard deviations
};

bool is_table(ParamClass kind) {
  return kind == ParamClass::embedding || kind == ParamClass::position ||
         kind == ParamClass::class_token;
}
bool writes_to_stream(ParamClass kind) {
  return kind == ParamClass::attn_out || kind == ParamClass::ffn_down;
}
bool reads_for_attention(ParamClass kind) {
  return kind == ParamClass::query || kind == ParamClass::key || kind == ParamClass::value;
}
/// The matrices that DeepNorm and Sub-LN scale: all hidden ones but W_q and W_k.
bool carries_signal(ParamClass kind) {
  return is_hidden_matrix(kind) && kind != ParamClass::query && kind != ParamClass::key;
}

Draw draw_of(const Param& param, const InitSpec& spec) {
  const ParamClass kind = param.tags.kind;
  const auto layers = static_cast<double>(spec.layers);
  const auto width = static_cast<double>(spec.width);
  const auto fans = static_cast<double>(param.shape.rows() + param.shape.cols());
  const double depth = writes_to_stream(kind) ? 1 / std::sqrt(2 * layers) : 1;
  const double xavier = std::sqrt(6 / fans);
  switch (spec.rule) {
    case InitRule::gpt2:
      return {.std = kGpt2Std * depth};
    case InitRule::xavier:
      if (is_table(kind)) return {.std = kGpt2Std};
      return {.bound = xavier};
    case InitRule::xavier_truncated:
      if (is_table(kind)) return {.std = kGpt2Std};
      return {.std = std::sqrt(2 / fans), .cut = 2};
    case InitRule::ngpt:
      return {.std = 1 / std::sqrt(width)};
    case InitRule::deepnorm:
    case InitRule::sub_ln: {
      if (is_table(kind)) return {.std = 1 / std::sqrt(width)};
      const double factor = spec.rule == InitRule::deepnorm ? std::pow(8 * layers, -0.25)
                                                            : std::sqrt(std::log(2 * layers));
      return {.bound = xavier * (reads_for_attention(kind) ? std::sqrt(0.5) : 1) *
                       (carries_signal(kind) ? factor : 1)};
    }
    case InitRule::megatron:
      return {.std = depth / std::sqrt(2.5 * width), .cut = 3};
    case InitRule::truncated:
      return {.std = kGpt2Std, .cut = 3};
  }
  return {};
}

std::uint64_t hash_of(std::string_view name) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

/// A normal that is drawn again, from positions of its own, until it lies within the cut.
double cut_normal(double value, RandomKey key, std::uint64_t at, double cut) {
  for (std::uint64_t again = 1; cut > 0 && std::abs(value) > cut; ++again) {
    value = normal_at({key.seed + again, key.stream}, at);
  }
  return value;
}

void draw_matrix(const Tensor& value, const Draw& draw, RandomKey key) {
  const Index count = value.count();
  const Tensor all = value.reshaped({count});
  if (draw.bound > 0) {
#pragma omp parallel for schedule(static)
    for (Index i = 0; i < count; ++i) {
      const float uniform = uniform_of(random_word(key, static_cast<std::uint64_t>(i)));
      set_value(all, 0, i, draw.bound * (2.0 * uniform - 1));
    }
    return;
  }
  // Normals come in pairs, and the logarithm and the angle of a pair are what costs.
#pragma omp parallel for schedule(static)
  for (Index first = 0; first < count; first += 2) {
    const auto pair = normal_pair(key, static_cast<std::uint64_t>(first / 2));
    for (Index i = first; i < std::min(first + 2, count); ++i) {
      const double drawn = cut_normal(
          pair[static_cast<std::size_t>(i - first)], key, static_cast<std::uint64_t>(i), draw.cut);
      set_value(all, 0, i, draw.std * drawn);
    }
  }
}

/// The matrix whose rows have these lengths: NAME.weight, or the table NAME itself.
const Param& matrix_of(const ParamStore& params, const Param& magnitude) {
  const std::string base = magnitude.name.substr(0, magnitude.name.rfind('.'));
  for (const Param& param : params.params()) {
    if (param.name == base) return param;
  }
  return params.find(base + ".weight");
}

void set_to_row_lengths(const Tensor& magnitude, const Tensor& weight) {
  for (Index r = 0; r < weight.shape.rows(); ++r) {
    double sum = 0;
    for (Index c = 0; c < weight.shape.cols(); ++c) {
      sum += value_at(weight, r, c) * value_at(weight, r, c);
    }
    set_value(magnitude, 0, r, std::sqrt(sum));
  }
}

/// f(memory of the host) sets the whole tensor.
template <class F>
void set_from_host(const Tensor& tensor, F&& f) {
  if (tensor.device.kind == DeviceKind::cpu) return f(tensor);
  const OwnedTensor home(tensor.shape, tensor.dtype);
  f(home.tensor);
  copy(home.tensor, tensor);
}

}  // namespace

void init_params(ParamStore& params, const InitSpec& spec) {
  for (const Param& param : params.params()) {
    if (param.shape.rank() == 1 && !is_table(param.tags.kind)) {
      fill(params.value(param), param.start);
    } else {
      set_from_host(params.value(param), [&](const Tensor& value) {
        draw_matrix(value, draw_of(param, spec), {spec.seed, hash_of(param.name)});
      });
    }
  }
  for (const Param& param : params.params()) {
    if (param.tags.kind != ParamClass::magnitude) continue;
    const OwnedTensor weight = host_copy(params.value(matrix_of(params, param)));
    set_from_host(params.value(param),
                  [&](const Tensor& magnitude) { set_to_row_lengths(magnitude, weight.tensor); });
  }
  params.refresh_copies();
}

}  // namespace norma
