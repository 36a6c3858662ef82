#include "tests/support/golden.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

namespace {

std::filesystem::path root() { return std::filesystem::path(NORMA_SOURCE_DIR) / "tests/goldens"; }

template <class T>
std::vector<double> as_doubles(const std::vector<std::byte>& bytes) {
  std::vector<T> raw(bytes.size() / sizeof(T));
  std::memcpy(raw.data(), bytes.data(), bytes.size());
  return {raw.begin(), raw.end()};
}

}  // namespace

Golden::Golden(const std::string& file)
    : file_(io::real_file_system(), (root() / (file + ".safetensors")).string()) {
  settings_ = file_.layout().metadata.at("norma");
}

std::vector<std::string> Golden::names() const {
  std::vector<std::string> found;
  for (const io::StoredTensor& tensor : file_.layout().tensors) found.push_back(tensor.name);
  return found;
}

bool Golden::has(const std::string& name) const { return file_.layout().find(name) != nullptr; }

std::vector<double> Golden::values(const std::string& name) const {
  const io::StoredTensor* stored = file_.layout().find(name);
  if (stored == nullptr) throw Error(say("the golden ", file_.path(), " has no ", name));
  std::vector<std::byte> bytes(stored->bytes());
  file_.read(*stored, bytes);
  const std::string type(stored->type->word);
  if (type == "F64") return as_doubles<double>(bytes);
  if (type == "F32") return as_doubles<float>(bytes);
  if (type == "I32") return as_doubles<std::int32_t>(bytes);
  throw Error(say("the golden ", file_.path(), " holds ", type));
}

OwnedTensor Golden::tensor(const std::string& name, DType dtype) const {
  const std::vector<double> numbers = values(name);
  Shape shape;
  for (const std::uint64_t size : file_.layout().find(name)->shape) {
    shape.append(static_cast<Index>(size));
  }
  OwnedTensor result(shape, dtype);
  for (Index i = 0; i < shape.count(); ++i) {
    if (dtype == DType::i32) {
      result.tensor.as<std::int32_t>()[i] =
          static_cast<std::int32_t>(numbers[static_cast<std::size_t>(i)]);
    } else {
      set_value(
          result.tensor, i / shape.cols(), i % shape.cols(), numbers[static_cast<std::size_t>(i)]);
    }
  }
  return result;
}

std::string Golden::raw(const std::string& key) const {
  const std::string mark = say('"', key, "\": ");
  const std::size_t at = settings_.find(mark);
  if (at == std::string::npos)
    throw Error(say("the golden ", file_.path(), " says nothing of ", key));
  return settings_.substr(at + mark.size());
}

bool Golden::says(const std::string& key) const {
  return settings_.find(say('"', key, "\": ")) != std::string::npos;
}
double Golden::number_in(const std::string& object, const std::string& key) const {
  const std::string text = raw(object);
  return std::stod(text.substr(text.find(say('"', key, "\": ")) + key.size() + 4));
}
std::vector<Index> Golden::shape(const std::string& name) const {
  const io::StoredTensor* stored = file_.layout().find(name);
  if (stored == nullptr) throw Error(say("the golden ", file_.path(), " has no ", name));
  return {stored->shape.begin(), stored->shape.end()};
}
double Golden::number(const std::string& key) const { return std::stod(raw(key)); }
bool Golden::truth(const std::string& key) const { return raw(key).starts_with("true"); }
std::string Golden::word(const std::string& key) const {
  const std::string text = raw(key);
  return text.substr(1, text.find('"', 1) - 1);
}
std::vector<std::string> Golden::words(const std::string& key) const {
  const std::string text = raw(key);
  const std::string list = text.substr(0, text.find(']'));
  std::vector<std::string> found;
  for (std::size_t at = list.find('"'); at != std::string::npos; at = list.find('"', at)) {
    const std::size_t end = list.find('"', at + 1);
    found.push_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

std::vector<std::string> golden_names(const std::string& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(root() / folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(root() / folder)) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace norma
