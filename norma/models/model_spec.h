// The size and build of a model: everything that is not its normalization.
#pragma once

#include <array>
#include <string>

#include "norma/base/fields.h"
#include "norma/base/types.h"
#include "norma/ops/rope.h"

namespace norma {

enum class Family : std::uint8_t { gpt };

template <>
struct Words<Family> {
  static constexpr std::array<std::pair<std::string_view, Family>, 1> kAll{{{"gpt", Family::gpt}}};
};

enum class Positions : std::uint8_t { learned, rope, none };

template <>
struct Words<Positions> {
  static constexpr std::array<std::pair<std::string_view, Positions>, 3> kAll{{
      {"learned", Positions::learned},
      {"rope", Positions::rope},
      {"none", Positions::none},
  }};
};

enum class FfnKind : std::uint8_t { gelu, gelu_tanh, relu, relu2, silu, swiglu, geglu };

template <>
struct Words<FfnKind> {
  static constexpr std::array<std::pair<std::string_view, FfnKind>, 7> kAll{{
      {"gelu", FfnKind::gelu},
      {"gelu_tanh", FfnKind::gelu_tanh},
      {"relu", FfnKind::relu},
      {"relu2", FfnKind::relu2},
      {"silu", FfnKind::silu},
      {"swiglu", FfnKind::swiglu},
      {"geglu", FfnKind::geglu},
  }};
};

constexpr bool is_gated(FfnKind kind) { return kind == FfnKind::swiglu || kind == FfnKind::geglu; }

template <>
struct Words<RopeLayout> {
  static constexpr std::array<std::pair<std::string_view, RopeLayout>, 3> kAll{{
      {"interleaved", RopeLayout::interleaved},
      {"half_split", RopeLayout::half_split},
      {"nvidia_defect", RopeLayout::nvidia_defect},  // a known fault, as a control
  }};
};

struct ModelSpec {
  Family family = Family::gpt;
  Index layers = 4;
  Index width = 128;
  Index heads = 4;
  Index kv_heads = 0;
  Index head_width = 0;
  Index ffn_width = 0;
  Index context = 128;
  Index vocab = 256;
  Positions positions = Positions::learned;
  double rope_base = 10000;
  RopeLayout rope = RopeLayout::interleaved;
  FfnKind ffn = FfnKind::gelu;
  bool bias = false;
  bool tied = true;
  double layer_scale = 0;
  double dropout = 0;
  double drop_path = 0;

  template <class F>
  void fields(F&& f) {
    constexpr double kMost = 1 << 20;
    constexpr double kDeepest = 1024;  // the deepest published has 1000 (DeepNet)
    f("family", family, "kind of model");
    f("layers", layers, "blocks", Range{1, kDeepest});
    f("width", width, "residual stream d", Range{1, kMost});
    f("heads", heads, "query heads", Range{1, 4096});
    f("kv_heads", kv_heads, "key and value heads; 0: as many as heads", Range{0, 4096});
    f("head_width", head_width, "width of a head; 0: width/heads", Range{0, kMost});
    f("ffn_width", ffn_width, "inner width of the feed-forward layer; 0: 4·width", Range{0, kMost});
    f("context", context, "longest sequence", Range{1, 1 << 24});
    f("vocab", vocab, "token ids", Range{1, 1 << 24});
    f("positions", positions, "how the model knows where a token stands");
    f("rope_base", rope_base, "base of the rotary angles", Range{1, 1e12});
    f("rope", rope, "which coordinates turn together");
    f("ffn", ffn, "activation of the feed-forward layer");
    f("bias", bias, "biases in linear maps and LayerNorms");
    f("tied", tied, "the head uses the embedding table");
    f("layer_scale",
      layer_scale,
      "start of a learned factor of each branch; 0: none",
      Range{0, 1e3});
    f("dropout", dropout, "of embeddings and branches", Range{0, 0.99});
    f("drop_path", drop_path, "of whole branches, rising linearly with depth", Range{0, 0.99});
  }

  Index key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  Index head() const { return head_width == 0 ? width / heads : head_width; }
  Index inner() const { return ffn_width == 0 ? 4 * width : ffn_width; }
};

}  // namespace norma
