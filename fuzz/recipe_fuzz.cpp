// libFuzzer target of recipes: TOML, settings, schemes. What is accepted must be written and read
// back the same.
#include "fuzz/target.h"

#include "norma/base/error.h"
#include "norma/train/recipe.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static norma::fuzz::Counts counts;
  ++counts.inputs;
  norma::Settings settings;
  try {
    settings = norma::Settings::from_toml(norma::fuzz::text_of(data, size), "x.toml");
  } catch (const norma::RequestError&) {
    return 0;
  }
  norma::Settings again;
  try {
    again = norma::Settings::from_toml(toml_text(settings, norma::Origins::hidden), "again.toml");
  } catch (const norma::RequestError& error) {
    norma::fuzz::complain(error.what());
  }
  if (again.entries().size() != settings.entries().size()) {
    norma::fuzz::complain("settings changed on the way through TOML");
  }
  try {
    const norma::Recipe recipe = norma::read_recipe(settings);
    ++counts.accepted;
    const std::string text = recipe_text(recipe);
    if (recipe_text(norma::read_recipe(norma::Settings::from_toml(text, "y.toml"))).empty()) {
      norma::fuzz::complain("a recipe vanished");
    }
  } catch (const norma::RequestError&) {
    return 0;
  }
  return 0;
}
