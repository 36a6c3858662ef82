#include "tests/parity/golden_model.h"

#include <algorithm>
#include <cmath>

#include "norma/base/read_fields.h"
#include "norma/nn/catalogue.h"

namespace norma {

Scheme golden_scheme(const std::string& name) {
  std::string toml = say("base = \"", name, "\"\n");
  const auto on_pre_sites = [](const std::string& slot) {
    return say("attn_pre = ", slot, "\nffn_pre = ", slot, "\nfinal = ", slot, "\n");
  };
  if (name == "x-bn-position") {
    toml = "base = \"pre-ln\"\n" + on_pre_sites("{ norm = \"bn\", statistics = \"position\" }");
  } else if (name == "x-bn-prefix") {
    toml = "base = \"pre-ln\"\n" + on_pre_sites("{ norm = \"bn\", statistics = \"prefix\" }");
  } else if (name == "x-scale-norm") {
    toml = "base = \"pre-rms\"\n" + on_pre_sites("\"scale\"");
  } else if (name == "x-logn") {
    toml = "base = \"pre-rms\"\nattention.log_length = \"learned\"\n";
  } else if (name == "x-relu2" || name == "x-rope-defect") {
    toml = "base = \"pre-rms\"\n";
  }
  return read_scheme(scheme_settings(Settings::from_toml(toml, "golden")));
}

ModelSpec golden_model_spec(const Golden& golden) {
  Settings settings;
  const auto copy_number = [&](const char* key) {
    settings.set({key, golden.number(key), "golden"});
  };
  for (const char* key :
       {"width", "heads", "kv_heads", "layers", "ffn_width", "vocab", "context", "rope_base"}) {
    if (golden.says(key)) copy_number(key);
  }
  if (golden.says("head_width")) copy_number("head_width");
  for (const char* key : {"positions", "ffn", "rope"}) {
    if (golden.says(key)) settings.set({key, golden.word(key), "golden"});
  }
  for (const char* key : {"bias", "tied"}) settings.set({key, golden.truth(key), "golden"});
  ModelSpec spec;
  SettingsReader reader(settings);
  reader.read("", spec);
  return spec;
}

GoldenModel::GoldenModel(const Golden& golden, DType dtype) {
  model = std::make_unique<Gpt>(
      golden_model_spec(golden), golden_scheme(golden.word("scheme")), params);
  params.allocate(dtype);
  model->allocate(dtype);
  for (const Param& param : params.params()) {
    const std::vector<double> numbers = golden.values("param/" + param.name);
    const Tensor value = params.value(param);
    if (static_cast<Index>(numbers.size()) != value.count()) {
      throw Error(say(param.name, " has ", value.count(), " values, the golden ", numbers.size()));
    }
    const Index cols = value.shape.cols();
    for (Index i = 0; i < value.count(); ++i) {
      set_value(value, i / cols, i % cols, numbers[static_cast<std::size_t>(i)]);
    }
  }
}

double relative_error(const std::vector<double>& got,
                      const std::vector<double>& want,
                      double floor) {
  if (got.size() != want.size()) return INFINITY;
  double scale = floor;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return INFINITY;
    worst = std::max(worst, std::abs(got[i] - want[i]));
  }
  return scale == 0 ? worst : worst / scale;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (Index r = 0; r < tensor.shape.rows(); ++r) {
    for (Index c = 0; c < tensor.shape.cols(); ++c) values.push_back(value_at(tensor, r, c));
  }
  return values;
}

std::vector<std::string> goldens_in(std::initializer_list<const char*> folders) {
  std::vector<std::string> all;
  for (const char* folder : folders) {
    for (const std::string& name : golden_names(folder)) all.push_back(say(folder, "/", name));
  }
  return all;
}

}  // namespace norma
