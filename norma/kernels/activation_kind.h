// The activations by name, for kernels and ops alike.
#pragma once

#include <cstdint>
#include <string_view>

namespace norma {

enum class Activation : std::uint8_t { gelu_erf, gelu_tanh, relu, relu2, silu };

constexpr std::string_view name_of(Activation kind) {
  switch (kind) {
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::gelu_tanh:
      return "gelu_tanh";
    case Activation::relu:
      return "relu";
    case Activation::relu2:
      return "relu2";
    case Activation::silu:
      return "silu";
  }
  return "?";
}

}  // namespace norma
