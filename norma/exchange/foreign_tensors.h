// The tensors of a folder or file that another program wrote, under one roof: one file or several
// with an index, names without the prefixes that wrappers add.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "norma/exchange/joint.h"
#include "norma/io/safetensors.h"

namespace norma::exchange {

class ForeignTensors {
 public:
  /// `from` is a .safetensors file, or a folder with model.safetensors or
  /// model.safetensors.index.json. Every header is checked, nothing else is read.
  ForeignTensors(io::FileSystem& disk, const std::string& from);

  const std::string& path() const { return path_; }  // of the file, or of the index
  /// Of all files; the names are the short ones.
  const std::vector<io::StoredTensor>& tensors() const { return layout_.tensors; }
  const io::Metadata& metadata() const { return layout_.metadata; }
  const io::StoredTensor* find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Whether two tensors have the same type, shape and bytes.
  bool equal(const std::string& a, const std::string& b) const;
  /// Forgets a tensor that says nothing (a mask, a second copy).
  void drop(const std::string& name);

  /// Refuses, before anything is loaded, files that lack a tensor of the model, have others, or
  /// have them in another shape or a type that no weights have.
  void require(const std::vector<Joint>& joints, const TensorMap& ours) const;
  /// After require(). Throws where a value is not finite; the model is then of no use.
  void load(const std::vector<Joint>& joints, const TensorMap& ours) const;

 private:
  struct Place {
    std::size_t file = 0;
    io::StoredTensor tensor;  // as its file names it
  };
  void open(io::FileSystem& disk, const std::string& file);
  std::vector<std::byte> bytes_of(const std::string& name) const;

  std::string path_;
  std::vector<std::unique_ptr<io::SafetensorsFile>> files_;
  io::SafetensorsLayout layout_;
  std::map<std::string, Place> places_;  // by short name
};

}  // namespace norma::exchange
