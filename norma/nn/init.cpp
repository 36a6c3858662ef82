#include "norma/nn/init.h"

#include <cmath>
#include <string_view>

#include "norma/ops/draw.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

constexpr double kGpt2Std = 0.02;

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

DrawRule draw_of(const Param& param, const InitSpec& spec) {
  const ParamClass kind = param.tags.kind;
  const auto layers = static_cast<double>(spec.layers);
  const auto width = static_cast<double>(spec.width);
  const auto fans = static_cast<double>(param.shape.rows() + param.shape.cols());
  const double depth = writes_to_stream(kind) ? 1 / std::sqrt(2 * layers) : 1;
  const double xavier = std::sqrt(6 / fans);
  switch (spec.rule) {
    case InitRule::gpt2:
      return {.deviation = kGpt2Std * depth};
    case InitRule::xavier:
      if (is_table(kind)) return {.deviation = kGpt2Std};
      return {.bound = xavier};
    case InitRule::xavier_truncated:
      if (is_table(kind)) return {.deviation = kGpt2Std};
      return {.deviation = std::sqrt(2 / fans), .cut = 2};
    case InitRule::ngpt:
      return {.deviation = 1 / std::sqrt(width)};
    case InitRule::deepnorm:
    case InitRule::sub_ln: {
      if (is_table(kind)) return {.deviation = 1 / std::sqrt(width)};
      const double factor = spec.rule == InitRule::deepnorm ? std::pow(8 * layers, -0.25)
                                                            : std::sqrt(std::log(2 * layers));
      return {.bound = xavier * (reads_for_attention(kind) ? std::sqrt(0.5) : 1) *
                       (carries_signal(kind) ? factor : 1)};
    }
    case InitRule::megatron:
      return {.deviation = depth / std::sqrt(2.5 * width), .cut = 3};
    case InitRule::truncated:
      return {.deviation = kGpt2Std, .cut = 3};
  }
  return {};
}

std::uint64_t hash_of(std::string_view name) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
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

}  // namespace

void init_params(ParamStore& params, const InitSpec& spec) {
  for (const Param& param : params.params()) {
    if (param.shape.rank() == 1 && !is_table(param.tags.kind)) {
      fill(params.value(param), param.start);
    } else {
      draw(params.value(param), draw_of(param, spec), {spec.seed, hash_of(param.name)});
    }
  }
  for (const Param& param : params.params()) {
    if (param.tags.kind != ParamClass::magnitude) continue;
    const OwnedTensor weight = host_copy(params.value(matrix_of(params, param)));
    const OwnedTensor magnitude(param.shape, params.value(param).dtype);
    set_to_row_lengths(magnitude.tensor, weight.tensor);
    copy(magnitude.tensor, params.value(param));
  }
  params.refresh_copies();
}

}  // namespace norma
