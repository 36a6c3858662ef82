// Goldens: tensors and settings written by tools/goldens, an implementation that is not ours.
#pragma once

#include <string>
#include <vector>

#include "norma/io/safetensors.h"
#include "norma/tensor/buffer.h"

namespace norma {

class Golden {
 public:
  /// `file` below tests/goldens, without its ending: "schemes/ngpt".
  explicit Golden(const std::string& file);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// A tensor converted to `dtype` (i32 stays i32).
  OwnedTensor tensor(const std::string& name, DType dtype) const;
  std::vector<double> values(const std::string& name) const;
  std::vector<Index> shape(const std::string& name) const;

  /// What the metadata say: a number, a word, a truth, a list of words; the first of that key.
  double number(const std::string& key) const;
  /// The same inside an object: number_in("lr_factor", "w1").
  double number_in(const std::string& object, const std::string& key) const;
  std::string word(const std::string& key) const;
  bool truth(const std::string& key) const;
  std::vector<std::string> words(const std::string& key) const;
  /// Whether the metadata have the key at all.
  bool says(const std::string& key) const;

 private:
  std::string raw(const std::string& key) const;
  io::SafetensorsFile file_;
  std::string settings_;
};

/// The names of all goldens in a folder below tests/goldens.
std::vector<std::string> golden_names(const std::string& folder);

}  // namespace norma
