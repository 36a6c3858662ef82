#include "norma/exchange/foreign_tensors.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/exchange/stored_values.h"
#include "norma/io/shard_index.h"

namespace norma::exchange {

namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool has_file(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Without what torch.compile, data parallel training and the class of the whole model put before.
std::string short_name(std::string_view name) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view wrapper : {"_orig_mod.", "module."}) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      found = true;
    }
  }
  for (const std::string_view body : {"transformer.", "model."}) {
    if (name.starts_with(body)) return std::string(name.substr(body.size()));
  }
  return std::string(name);
}

}  // namespace

ForeignTensors::ForeignTensors(io::FileSystem& disk, const std::string& from) : path_(from) {
  std::vector<std::string> names;
  const int listed = disk.list(from, names).error;
  if (listed == ENOENT) throw RequestError(say("there is no ", from, " to import."));
  if (listed != 0) {
    open(disk, from);
    return;
  }
  if (has_file(names, kModel)) {
    path_ = io::join(from, kModel);
    open(disk, path_);
    return;
  }
  if (!has_file(names, kIndex)) {
    throw RequestError(say(from,
                           " has neither ",
                           kModel,
                           " nor ",
                           kIndex,
                           ". Other formats (.bin, .pt) can hold code and are not read; save the "
                           "weights as safetensors."));
  }
  path_ = io::join(from, kIndex);
  const io::ShardIndex index = io::read_shard_index(io::File(disk, path_, io::OpenAs::read));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index.shard_of) shards.insert(shard);
  std::map<std::string, io::SafetensorsLayout> layouts;
  for (const std::string& shard : shards) {
    open(disk, io::join(from, shard));
    layouts.emplace(shard, files_.back()->layout());
  }
  io::require_shards(path_, index, layouts);
}

void ForeignTensors::open(io::FileSystem& disk, const std::string& file) {
  files_.push_back(std::make_unique<io::SafetensorsFile>(disk, file));
  const io::SafetensorsLayout& layout = files_.back()->layout();
  layout_.metadata.insert(layout.metadata.begin(), layout.metadata.end());
  for (const io::StoredTensor& tensor : layout.tensors) {
    io::StoredTensor renamed = tensor;
    renamed.name = short_name(tensor.name);
    if (!places_.emplace(renamed.name, Place{files_.size() - 1, tensor}).second) {
      throw Error(
          say(file, ": two tensors are called ", renamed.name, " once prefixes are left out."));
    }
    layout_.tensors.push_back(std::move(renamed));
  }
}

const io::StoredTensor* ForeignTensors::find(const std::string& name) const {
  const auto at = places_.find(name);
  return at == places_.end() ? nullptr : &at->second.tensor;
}

void ForeignTensors::drop(const std::string& name) {
  places_.erase(name);
  std::erase_if(layout_.tensors,
                [&](const io::StoredTensor& tensor) { return tensor.name == name; });
}

std::vector<std::byte> ForeignTensors::bytes_of(const std::string& name) const {
  const Place& place = places_.at(name);
  std::vector<std::byte> bytes(place.tensor.bytes());
  files_[place.file]->read(place.tensor, bytes);
  return bytes;
}

bool ForeignTensors::equal(const std::string& a, const std::string& b) const {
  const io::StoredTensor* first = find(a);
  const io::StoredTensor* second = find(b);
  return first != nullptr && second != nullptr && first->type == second->type &&
         first->shape == second->shape && bytes_of(a) == bytes_of(b);
}

void ForeignTensors::require(const std::vector<Joint>& joints, const TensorMap& ours) const {
  std::vector<io::TensorSpec> wanted;
  for (const Joint& joint : joints) {
    const io::StoredTensor* there = find(joint.theirs);
    // Any type that weights may have is welcome; another is refused as not being F32.
    const io::StoredType* type =
        there != nullptr && holds_weights(*there->type) ? there->type : io::find_stored_type("F32");
    wanted.push_back(stored_spec(joint, ours, *type));
  }
  io::require_tensors(path_, layout_, wanted);
}

void ForeignTensors::load(const std::vector<Joint>& joints, const TensorMap& ours) const {
  for (const Joint& joint : joints) {
    const io::StoredType& type = *find(joint.theirs)->type;
    const std::vector<std::byte> bytes = bytes_of(joint.theirs);
    if (const std::uint64_t bad = io::count_non_finite(type, bytes); bad > 0) {
      throw Error(say(path_, ": ", bad, " values of ", joint.theirs, " are not finite numbers."));
    }
    scatter(joint, ours, type, bytes);
  }
}

}  // namespace norma::exchange
