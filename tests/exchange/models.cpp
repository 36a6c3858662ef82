#include "tests/exchange/models.h"

#include "norma/base/rng.h"
#include "norma/tensor/planning.h"
#include "tests/support/expect.h"
#include "tests/support/values.h"

namespace norma::test {

SmallModel::SmallModel(const std::vector<std::string>& settings) {
  Settings given = Settings::from_toml(
      "model = { layers = 2, width = 16, heads = 4, context = 12, vocab = 20, ffn_width = 24 }",
      "test");
  for (const std::string& setting : settings) given.set_assignment(setting);
  recipe = read_recipe(given);
  built = std::make_unique<StandaloneGpt>(recipe.model, recipe.scheme, recipe.dtype());
  std::uint64_t stream = 0;  // all values are floats, whatever the type
  for (const NamedTensor& named : model().tensors()) {
    fill_normal(named.tensor, ++stream, 0.3);
    const bool around_one = named.name.ends_with(".gain") || named.name.ends_with("_var");
    for_each_place(named.tensor.shape, [&](Index r, Index c) {
      if (around_one)
        set_value(named.tensor, r, c, static_cast<float>(1 + 0.3 * value_at(named.tensor, r, c)));
    });
  }
}

SmallModel::SmallModel(io::FileSystem& disk,
                       const std::string& from,
                       const std::string& map,
                       const std::vector<std::string>& assignments) {
  Settings said;
  for (const std::string& assignment : assignments) said.set_assignment(assignment);
  const exchange::Import source(disk, from, map, said);
  recipe = read_recipe(source.settings());
  step = source.step();
  const DType dtype = recipe.dtype();
  {
    const PlanningScope planning;
    StandaloneGpt planned(recipe.model, recipe.scheme, dtype);
    source.require(planned.model);
  }
  built = std::make_unique<StandaloneGpt>(recipe.model, recipe.scheme, dtype);
  source.load(model());
}

std::vector<double> SmallModel::logits(const Tensor& ids) const {
  Tape tape;
  const Var z = tape.evaluate([&] { return model().logits(tape, ids, {.training = false}); });
  std::vector<double> values;
  for_each_place(z.value().shape,
                 [&](Index r, Index c) { values.push_back(value_at(z.value(), r, c)); });
  return values;
}

std::vector<double> SmallModel::logits() const {
  const OwnedTensor ids({2, 9}, DType::i32);
  std::uint64_t at = 0;
  for (std::int32_t& id : ids.tensor.elements<std::int32_t>()) {
    id = static_cast<std::int32_t>(random_word({3, 1}, at++) % 13);
  }
  return logits(ids.tensor);
}

exchange::ExportFacts SmallModel::facts() const {
  return {
      .recipe = used_settings(recipe), .scheme = recipe.scheme.name, .step = 7, .tokenizer = {}};
}

testing::AssertionResult same_weights(Gpt& a, Gpt& b) {
  const std::vector<NamedTensor> ours = a.tensors();
  const std::vector<NamedTensor> theirs = b.tensors();
  if (ours.size() != theirs.size()) return testing::AssertionFailure() << "other tensors";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].name != theirs[i].name) return testing::AssertionFailure() << theirs[i].name;
    if (auto same = same_bits(theirs[i].tensor, ours[i].tensor); !same) {
      return same << " in " << ours[i].name;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace norma::test
