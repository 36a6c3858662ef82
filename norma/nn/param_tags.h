// What an optimizer may know of a parameter. It knows nothing else: no scheme, no model, no name.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "norma/base/fields.h"

namespace norma {

enum class ParamClass : std::uint8_t {
  embedding,    // token table (V, d)
  position,     // learned positions (T, d)
  query,        // W_q (H·D, d)
  key,          // W_k
  value,        // W_v
  attn_out,     // W_o (d, H·D)
  ffn_up,       // W_1 or W_u (f, d)
  ffn_gate,     // W_g (f, d)
  ffn_down,     // W_2 (d, f)
  head,         // output table (V, d), where it is not the embedding
  patch,        // patch projection (d, p·p·c)
  class_token,  // (d)
  gain,         // of a norm
  bias,         // of a linear map or a norm
  scale,        // eigen learning rates α, s_qk, s_u, s_v, s_z, temperatures, layer scale
  magnitude,    // lengths of weight-normalized rows
  other
};

template <>
struct Words<ParamClass> {
  static constexpr std::array<std::pair<std::string_view, ParamClass>, 17> kAll{{
      {"embedding", ParamClass::embedding},
      {"position", ParamClass::position},
      {"query", ParamClass::query},
      {"key", ParamClass::key},
      {"value", ParamClass::value},
      {"attn_out", ParamClass::attn_out},
      {"ffn_up", ParamClass::ffn_up},
      {"ffn_gate", ParamClass::ffn_gate},
      {"ffn_down", ParamClass::ffn_down},
      {"head", ParamClass::head},
      {"patch", ParamClass::patch},
      {"class_token", ParamClass::class_token},
      {"gain", ParamClass::gain},
      {"bias", ParamClass::bias},
      {"scale", ParamClass::scale},
      {"magnitude", ParamClass::magnitude},
      {"other", ParamClass::other},
  }};
};

/// The matrices inside blocks: what Muon and the Hyperball work on.
constexpr bool is_hidden_matrix(ParamClass kind) {
  return kind >= ParamClass::query && kind <= ParamClass::ffn_down;
}

/// What holds for a weight after every optimizer step.
enum class Constraint : std::uint8_t {
  free,
  unit,       // every vector along the axis has length 1
  row_max,    // every vector along the axis has length at most 1
  frobenius,  // |W| in the Frobenius norm stays what it was at the start
  spectral    // the largest singular value stays what it was at the start
};

template <>
struct Words<Constraint> {
  static constexpr std::array<std::pair<std::string_view, Constraint>, 5> kAll{{
      {"free", Constraint::free},
      {"unit", Constraint::unit},
      {"row_max", Constraint::row_max},
      {"frobenius", Constraint::frobenius},
      {"spectral", Constraint::spectral},
  }};
};

/// Which vectors of a matrix (out, in) a constraint or a sphere is about: those of length d.
enum class VectorAxis : std::uint8_t {
  rows,    // one per output unit: embeddings, W_q, W_k, W_v, W_u, W_g, W_1
  columns  // one per input: W_o and W_2
};

struct ParamTags {
  ParamClass kind = ParamClass::other;
  bool decay = true;    // weight decay applies
  double lr_scale = 1;  // multiplies the learning rate
  Constraint constraint = Constraint::free;
  VectorAxis axis = VectorAxis::rows;
  double logical_scale = 1;  // s_init / s_scale: what the model uses is this times what is stored
  friend bool operator==(const ParamTags&, const ParamTags&) = default;
};

}  // namespace norma
