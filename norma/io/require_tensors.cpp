#include <map>

#include "norma/base/text.h"
#include "norma/io/safetensors.h"

namespace norma::io {

namespace {

constexpr std::size_t kNamed = 10;  // a model of another shape would fill the screen

std::string part(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = say(" ", names.size(), " ", what, ":");
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) {
    text += say(i > 0 ? ", " : " ", names[i]);
  }
  if (names.size() > kNamed) text += say(" and ", names.size() - kNamed, " more");
  return text + ".";
}

}  // namespace

void require_tensors(std::string_view file,
                     const SafetensorsLayout& found,
                     const std::vector<TensorSpec>& wanted) {
  std::map<std::string_view, const StoredTensor*> left;
  for (const StoredTensor& tensor : found.tensors) left.emplace(tensor.name, &tensor);
  std::vector<std::string> missing;
  std::vector<std::string> different;
  std::vector<std::string> unexpected;
  for (const TensorSpec& spec : wanted) {
    const auto at = left.find(spec.name);
    if (at == left.end()) {
      missing.push_back(spec.name);
      continue;
    }
    const StoredTensor& tensor = *at->second;
    if (tensor.type != spec.type || tensor.shape != spec.shape) {
      different.push_back(
          say(spec.name, " is ", text_of(tensor), " and should be ", text_of(spec)));
    }
    left.erase(at);
  }
  unexpected.reserve(left.size());
  for (const auto& [name, tensor] : left) unexpected.emplace_back(name);
  if (missing.empty() && different.empty() && unexpected.empty()) return;
  throw Error(say(file,
                  " does not fit the model, and nothing was loaded.",
                  part("missing", missing),
                  part("different", different),
                  part("unexpected", unexpected)));
}

}  // namespace norma::io
