// How a tensor of another program is made of ours. One description serves both directions, so what
// was exported reads back as it was.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "norma/io/safetensors.h"
#include "norma/models/gpt.h"

namespace norma::exchange {

/// Our tensors by name.
using TensorMap = std::map<std::string, Tensor>;
TensorMap tensors_of(Gpt& model);

/// Rows of a joint tensor: one of our tensors, or rows of zeros where we have none (a bias that
/// their form always has). The elements of a vector are rows of one element.
struct Part {
  std::string name;  // empty: zeros
  Index zeros = 0;
};

/// Their tensor: the rows of the parts, one below the other.
struct Joint {
  std::string theirs;
  std::vector<Part> parts = {};
  bool transposed = false;  // they store (in, out)
  /// Heads of this width turn pairs (2j, 2j+1) with us and (j, j + D/2) with them, so rows 2j and
  /// 2j+1 of a head are their rows j and j + D/2. 0: as they are.
  Index turned_head = 0;
  Index first_rows = 0;  // only so many; 0: all
};

/// What the file holds for a joint, in this type.
io::TensorSpec stored_spec(const Joint& joint, const TensorMap& ours, const io::StoredType& type);

/// Our tensors as the bytes of theirs, and the reverse; `bytes` has the size of stored_spec.
std::vector<std::byte> gather(const Joint& joint,
                              const TensorMap& ours,
                              const io::StoredType& type);
void scatter(const Joint& joint,
             const TensorMap& ours,
             const io::StoredType& type,
             io::Bytes bytes);

}  // namespace norma::exchange
