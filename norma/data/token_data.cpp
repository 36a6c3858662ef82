#include "norma/data/token_data.h"

#include "norma/base/rng.h"

namespace norma {

TokenData random_tokens(Index vocab, Index count) {
  auto ids = std::make_shared<std::vector<std::uint32_t>>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids->size(); ++i) {
    (*ids)[i] = random_word({1, 1}, i) % static_cast<std::uint32_t>(vocab);
  }
  TokenData data;
  data.train = {reinterpret_cast<const std::byte*>(ids->data()), count, 4};
  data.vocab = vocab;
  data.held_bytes = ids->size() * sizeof(std::uint32_t);
  data.owner = std::move(ids);
  return data;
}

}  // namespace norma
