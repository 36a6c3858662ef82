#include "norma/data/token_data.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "norma/base/error.h"
#include "norma/base/rng.h"
#include "norma/base/text.h"

namespace norma {

std::int32_t TokenView::operator[](Index at) const {
  const std::byte* where = data + at * bytes_per_token;
  if (bytes_per_token == 1) return std::to_integer<std::int32_t>(*where);
  if (bytes_per_token == 2) {
    std::uint16_t id = 0;
    std::memcpy(&id, where, sizeof id);
    return id;
  }
  std::uint32_t id = 0;
  std::memcpy(&id, where, sizeof id);
  return static_cast<std::int32_t>(id);
}

TokenData random_tokens(Index vocab, Index count) {
  auto ids = std::make_shared<std::vector<std::uint32_t>>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids->size(); ++i) {
    (*ids)[i] = random_word({1, 1}, i) % static_cast<std::uint32_t>(vocab);
  }
  TokenData data;
  data.train = {reinterpret_cast<const std::byte*>(ids->data()), count, 4};
  data.vocab = vocab;
  data.owner = std::move(ids);
  return data;
}

TokenData load_bytes(const std::string& path, double val_fraction) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw RequestError(say("data.path: there is no file ", path, "."));
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    throw RequestError(say("data.path must be a text file, but ", path, " is something else."));
  }
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) throw Error(say("cannot read ", path, "."));
  constexpr std::uintmax_t kFewest = 64;
  if (size < kFewest) {
    throw RequestError(say(path, " has ", size, " bytes; training needs at least ", kFewest, "."));
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  file.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(size));
  if (!file) throw Error(say("cannot read all ", size, " bytes of ", path, "."));

  TokenData data;
  data.vocab = 256;
  data.description = say(std::filesystem::path(path).filename().string(), ", bytes");
  const auto total = static_cast<Index>(size);
  const auto val = static_cast<Index>(static_cast<double>(total) * val_fraction);
  const TokenView all{bytes->data(), total, 1};
  data.train = all.part(0, total - val);
  data.val = all.part(total - val, val);
  data.owner = std::move(bytes);
  return data;
}

}  // namespace norma
