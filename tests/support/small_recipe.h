// A recipe and data that train in milliseconds.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "norma/base/rng.h"
#include "norma/train/recipe.h"
#include "norma/train/trainer.h"

namespace norma::test {

/// A byte-level GPT of a few thousand parameters, with changes.
inline Recipe small_recipe(const std::vector<std::string>& changes = {}) {
  Settings given = Settings::from_toml(R"(
model = { layers = 2, width = 16, heads = 2, context = 12, vocab = 256 }
scheme = { base = "dnt" }
optim = { name = "adamw", lr = 3e-3, beta1 = 0.9, beta2 = 0.95, clip_bound = 1.0 }
schedule = { name = "cosine", warmup = 2, min_lr = 1e-4 }
train = { steps = 20, batch = 4, log_every = 5 }
)",
                                       "test");
  for (const std::string& change : changes) given.set_assignment(change);
  return read_recipe(given);
}

/// Text with something to learn: words in a random order, so that no two windows are alike.
inline TokenData small_data() {
  auto text = std::make_shared<std::string>();
  const std::array words = {"the ", "cat ", "sat ", "on ", "a ", "mat, ", "and ", "dog. "};
  for (std::uint64_t i = 0; text->size() < 4000; ++i) *text += words[random_word({1, 1}, i) % 8];
  TokenData data;
  data.vocab = 256;
  const TokenView all{
      reinterpret_cast<const std::byte*>(text->data()), static_cast<Index>(text->size()), 1};
  data.train = all.part(0, all.count - 400);
  data.val = all.part(all.count - 400, 400);
  data.owner = text;
  return data;
}

}  // namespace norma::test
