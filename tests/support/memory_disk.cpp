#include "tests/support/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace norma::test {

namespace {

io::Answer failed(int error) { return {.value = -1, .error = error}; }

}  // namespace

MemoryDisk::MemoryDisk() { nodes_.emplace_back().folder = true; }

bool MemoryDisk::dead() {
  ++calls_;
  return power_until_ >= 0 && calls_ > power_until_;
}

int MemoryDisk::find(std::string_view path) const {
  int node = 0;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string name(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty() || name == ".") continue;
    const Node& folder = nodes_[static_cast<std::size_t>(node)];
    const auto entry = folder.entries.find(name);
    if (entry == folder.entries.end()) return -1;
    node = entry->second;
  }
  return node;
}

std::pair<int, std::string> MemoryDisk::place(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {0, path};
  const int folder = find(path.substr(0, slash));
  const bool is_folder = folder >= 0 && nodes_[static_cast<std::size_t>(folder)].folder;
  return {is_folder ? folder : -1, path.substr(slash + 1)};
}

void MemoryDisk::apply(const Write& write, std::string& data) {
  const std::size_t end = write.offset + write.bytes.size();
  if (data.size() < end || write.cuts) data.resize(end, '\0');
  data.replace(write.offset, write.bytes.size(), write.bytes);
}

void MemoryDisk::apply(const Change& change, Entries& entries) {
  if (!change.from.empty()) entries.erase(change.from);
  if (!change.to.empty()) entries[change.to] = change.node;
}

void MemoryDisk::change(int folder, const Change& change) {
  Node& node = nodes_[static_cast<std::size_t>(folder)];
  apply(change, node.entries);
  node.changes.push_back(change);
}

int MemoryDisk::add(const std::string& path, bool folder) {
  const auto [parent, name] = place(path);
  const int node = static_cast<int>(nodes_.size());
  nodes_.emplace_back().folder = folder;
  change(parent, {.from = "", .to = name, .node = node});
  return node;
}

io::Answer MemoryDisk::open(const std::string& path, io::OpenAs how) {
  if (dead()) return failed(EIO);
  int node = find(path);
  const bool makes =
      how == io::OpenAs::create_new || how == io::OpenAs::shared || how == io::OpenAs::append;
  if (how == io::OpenAs::create_new && node >= 0) return failed(EEXIST);
  if (node < 0 && (!makes || place(path).first < 0)) return failed(ENOENT);
  if (node < 0) node = add(path, false);
  if (how == io::OpenAs::folder && !nodes_[static_cast<std::size_t>(node)].folder) {
    return failed(ENOTDIR);
  }
  handles_[next_handle_] = {.node = node, .at_end = how == io::OpenAs::append};
  return {.value = next_handle_++};
}

io::Answer MemoryDisk::close(int handle) {
  if (dead()) return failed(EIO);
  const auto at = handles_.find(handle);
  if (at == handles_.end()) return failed(EBADF);
  Node& node = nodes_[static_cast<std::size_t>(at->second.node)];
  if (node.lock_holder == handle) node.lock_holder = -1;
  handles_.erase(at);
  return {};
}

io::Answer MemoryDisk::write(int handle, io::Bytes bytes) {
  if (dead()) return failed(EIO);
  Handle& open = handles_.at(handle);
  Node& node = nodes_[static_cast<std::size_t>(open.node)];
  if (open.at_end) open.position = node.data.size();
  std::string text(bytes.size(), '\0');
  std::memcpy(text.data(), bytes.data(), bytes.size());
  node.writes.push_back({.offset = open.position, .bytes = std::move(text)});
  apply(node.writes.back(), node.data);
  open.position += bytes.size();
  return {.value = static_cast<std::int64_t>(bytes.size())};
}

io::Answer MemoryDisk::read_at(int handle, std::uint64_t offset, std::span<std::byte> into) {
  if (dead()) return failed(EIO);
  const std::string& data = nodes_[static_cast<std::size_t>(handles_.at(handle).node)].data;
  if (offset >= data.size()) return {};
  const std::size_t count = std::min<std::size_t>(into.size(), data.size() - offset);
  std::memcpy(into.data(), data.data() + offset, count);
  return {.value = static_cast<std::int64_t>(count)};
}

io::Answer MemoryDisk::read_next(int handle, std::span<std::byte> into) {
  Handle& open = handles_.at(handle);
  const io::Answer got = read_at(handle, open.position, into);
  if (got.error == 0) open.position += static_cast<std::uint64_t>(got.value);
  return got;
}

io::Answer MemoryDisk::truncate(int handle, std::uint64_t bytes) {
  if (dead()) return failed(EIO);
  Node& node = nodes_[static_cast<std::size_t>(handles_.at(handle).node)];
  node.writes.push_back({.offset = bytes, .bytes = "", .cuts = true});
  apply(node.writes.back(), node.data);
  return {};
}

io::Answer MemoryDisk::sync(int handle) {
  if (dead()) return failed(EIO);
  Node& node = nodes_[static_cast<std::size_t>(handles_.at(handle).node)];
  node.durable_data = node.data;
  node.durable_entries = node.entries;
  node.writes.clear();
  node.changes.clear();
  return {};
}

io::Answer MemoryDisk::lock(int handle) {
  if (dead()) return failed(EIO);
  Node& node = nodes_[static_cast<std::size_t>(handles_.at(handle).node)];
  if (node.lock_holder >= 0 && node.lock_holder != handle) return failed(EWOULDBLOCK);
  node.lock_holder = handle;
  return {};
}

io::Answer MemoryDisk::info(int handle, io::FileInfo& info) {
  if (dead()) return failed(EIO);
  const Node& node = nodes_[static_cast<std::size_t>(handles_.at(handle).node)];
  info.kind = node.folder ? io::FileInfo::Kind::folder : io::FileInfo::Kind::file;
  info.bytes = node.data.size();
  return {};
}

io::Answer MemoryDisk::rename(const std::string& from, const std::string& to) {
  if (dead()) return failed(EIO);
  const int node = find(from);
  const auto [folder, name] = place(from);
  const auto [other, new_name] = place(to);
  if (node < 0 || folder < 0 || other < 0) return failed(ENOENT);
  if (find(to) >= 0) return failed(EEXIST);
  if (folder != other) return failed(EXDEV);
  change(folder, {.from = name, .to = new_name, .node = node});
  return {};
}

io::Answer MemoryDisk::replace(const std::string& from, const std::string& to) {
  if (dead()) return failed(EIO);
  const int node = find(from);
  const auto [folder, name] = place(from);
  const auto [other, new_name] = place(to);
  if (node < 0 || folder < 0 || other < 0) return failed(ENOENT);
  if (folder != other) return failed(EXDEV);
  const int former = find(to);
  if (former >= 0 && nodes_[static_cast<std::size_t>(former)].folder) return failed(EISDIR);
  change(folder, {.from = name, .to = new_name, .node = node});
  return {};
}

io::Answer MemoryDisk::remove(const std::string& path, bool folder) {
  if (dead()) return failed(EIO);
  const int node = find(path);
  if (node < 0) return failed(ENOENT);
  const Node& found = nodes_[static_cast<std::size_t>(node)];
  if (found.folder != folder) return failed(folder ? ENOTDIR : EISDIR);
  if (!found.entries.empty()) return failed(ENOTEMPTY);
  const auto [parent, name] = place(path);
  change(parent, {.from = name, .to = "", .node = node});
  return {};
}

io::Answer MemoryDisk::remove_file(const std::string& path) { return remove(path, false); }
io::Answer MemoryDisk::remove_folder(const std::string& path) { return remove(path, true); }

io::Answer MemoryDisk::make_folder(const std::string& path) {
  if (dead()) return failed(EIO);
  if (find(path) >= 0) return failed(EEXIST);
  if (place(path).first < 0) return failed(ENOENT);
  add(path, true);
  return {};
}

io::Answer MemoryDisk::list(const std::string& folder, std::vector<std::string>& names) {
  if (dead()) return failed(EIO);
  names.clear();
  const int node = find(folder);
  if (node < 0) return failed(ENOENT);
  const Node& found = nodes_[static_cast<std::size_t>(node)];
  if (!found.folder) return failed(ENOTDIR);
  for (const auto& [name, entry] : found.entries) names.push_back(name);
  return {};
}

io::Answer MemoryDisk::free_bytes(const std::string&) {
  if (dead()) return failed(EIO);
  return {.value = free_bytes_};
}

MemoryDisk MemoryDisk::after_power_loss(std::mt19937_64& random) const {
  // Mixed fates are the rule; all kept and all lost are drawn often enough to be seen, too.
  const std::uint64_t mood = random() % 8;
  MemoryDisk disk = *this;
  disk.handles_.clear();
  disk.calls_ = 0;
  disk.power_until_ = -1;
  for (Node& node : disk.nodes_) {
    node.data = node.durable_data;
    for (Write write : node.writes) {
      const std::uint64_t fate = mood == 0 ? 0 : mood == 1 ? 1 : random() % 4;
      if (fate == 1) continue;
      if (fate == 2) write.bytes.resize(random() % (write.bytes.size() + 1));
      if (fate == 3) std::fill(write.bytes.begin(), write.bytes.end(), '\0');
      apply(write, node.data);
    }
    node.entries = node.durable_entries;
    for (const Change& change : node.changes) {
      const bool kept = mood == 0 || (mood != 1 && random() % 2 == 0);
      if (kept) apply(change, node.entries);
    }
    node.durable_data = node.data;
    node.durable_entries = node.entries;
    node.writes.clear();
    node.changes.clear();
    node.lock_holder = -1;
  }
  return disk;
}

void MemoryDisk::put(const std::string& path, std::string_view bytes) {
  int index = find(path);
  if (index < 0) index = add(path, false);
  Node& node = nodes_[static_cast<std::size_t>(index)];
  node.data = bytes;
  node.durable_data = bytes;
  Node& parent = nodes_[static_cast<std::size_t>(place(path).first)];
  parent.durable_entries[place(path).second] = index;
}

std::string MemoryDisk::bytes_of(const std::string& path) const {
  const int node = find(path);
  if (node < 0) throw std::runtime_error("the memory disk has no " + path);
  return nodes_[static_cast<std::size_t>(node)].data;
}

}  // namespace norma::test
