// Small models with random weights, and what they compute.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/exchange/export.h"
#include "norma/exchange/import.h"
#include "norma/models/standalone_gpt.h"
#include "norma/train/recipe.h"
#include "tests/support/memory_disk.h"

namespace norma::test {

struct SmallModel {
  /// Every parameter is random, gains around 1.
  explicit SmallModel(const std::vector<std::string>& settings);
  /// What an import says, with its weights; `assignments` as on the command line.
  SmallModel(io::FileSystem& disk,
             const std::string& from,
             const std::string& map,
             const std::vector<std::string>& assignments = {});

  Recipe recipe;
  Index step = 0;
  std::unique_ptr<StandaloneGpt> built;
  Gpt& model() const { return built->model; }

  /// Row by row, (B·T·V), of ids (B, T).
  std::vector<double> logits(const Tensor& ids) const;
  std::vector<double> logits() const;  // of fixed random ids
  exchange::ExportFacts facts() const;
};

/// Whether two models have the same tensors, bit for bit.
testing::AssertionResult same_weights(Gpt& a, Gpt& b);

}  // namespace norma::test
