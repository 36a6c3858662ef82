// [data] of a recipe: where the tokens come from.
#pragma once

#include <array>
#include <string>

#include "norma/base/fields.h"

namespace norma {

enum class DataFormat : std::uint8_t { automatic, text, norma, nanogpt, llmc };

template <>
struct Words<DataFormat> {
  static constexpr std::array<std::pair<std::string_view, DataFormat>, 5> kAll{{
      {"auto", DataFormat::automatic},
      {"text", DataFormat::text},
      {"norma", DataFormat::norma},
      {"nanogpt", DataFormat::nanogpt},
      {"llmc", DataFormat::llmc},
  }};
};

struct DataSpec {
  std::string path;
  DataFormat format = DataFormat::automatic;
  double val_fraction = 0.1;
  template <class F>
  void fields(F&& f) {
    f("path",
      path,
      "a folder of tokens (norma data text, nanoGPT, llm.c), or a text read as bytes");
    f("format", format, "auto, text, norma, nanogpt or llmc");
    f("val_fraction", val_fraction, "share of a text kept for validation", Range{0, 0.9});
  }
};

}  // namespace norma
