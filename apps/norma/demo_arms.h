// The five models of the demo: who they are, and their recipes.
#pragma once

#include <span>
#include <string>

#include "norma/train/recipe.h"

namespace norma::app {

struct DemoArm {
  const char* folder;  // of its run
  const char* model;
  const char* optimizer;
  const char* settings;  // what differs from the recipe they share, as TOML
};

/// GPT-2 and L-DNT, each under AdamW and under momentum SGD, and nGPT.
std::span<const DemoArm> demo_arms();

struct DemoTraining {
  std::string data;
  Index steps = 0;
  Index threads = 0;  // 0: all cores
};

/// Byte pairs that the demo's tokenizer has learned, bytes and end-of-text included.
inline constexpr Index kDemoVocab = 2048;

Recipe demo_recipe(const DemoArm& arm, const DemoTraining& training);

}  // namespace norma::app
