#include "norma/text/bpe_tokenizer.h"

#include <algorithm>
#include <exception>

#include "norma/base/threads.h"
#include "norma/base/types.h"
#include "norma/text/bpe_files.h"
#include "norma/text/merger.h"
#include "norma/text/word_cache.h"

namespace norma::text {

namespace {

// Long inputs are encoded in parts of about this size; small enough to share out evenly, large
// enough that a part's start costs nothing.
constexpr std::size_t kPartBytes = std::size_t{256} << 10;

/// Cuts at safe places only, so the parts have the words of the whole.
std::vector<std::string_view> parts_of(std::string_view bytes) {
  std::vector<std::string_view> parts;
  while (!bytes.empty()) {
    const std::size_t end = bytes.size() <= kPartBytes ? bytes.size() : next_cut(bytes, kPartBytes);
    parts.push_back(bytes.substr(0, end));
    bytes.remove_prefix(end);
  }
  return parts;
}

}  // namespace

struct BpeTokenizer::Scratch {
  explicit Scratch(const BpeTokenizer& owner) : merger(owner.pairs_, owner.byte_ids_) {}
  WordCache cache;
  Merger merger;
};

class BpeTokenizer::Lease {
 public:
  explicit Lease(const BpeTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner_.pool_lock_);
    if (!owner_.pool_.empty()) {
      scratch_ = std::move(owner_.pool_.back());
      owner_.pool_.pop_back();
    } else {
      scratch_ = std::make_unique<Scratch>(owner_);
    }
  }
  ~Lease() {
    const std::lock_guard lock(owner_.pool_lock_);
    owner_.pool_.push_back(std::move(scratch_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Scratch& operator*() const { return *scratch_; }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

BpeTokenizer::BpeTokenizer(BpeModel model)
    : model_(std::move(model)), pairs_(model_.merges), fingerprint_(fingerprint_of(model_)) {
  std::vector<bool> is_special(model_.pieces.size(), false);
  for (const SpecialToken& special : model_.specials) {
    is_special[static_cast<std::size_t>(special.id)] = true;
    specials_by_byte_[static_cast<std::uint8_t>(special.text[0])].push_back(&special);
  }
  for (auto& list : specials_by_byte_) {
    std::sort(list.begin(), list.end(), [](const SpecialToken* a, const SpecialToken* b) {
      return a->text.size() > b->text.size();
    });
  }
  // A special token of one byte gives that byte its id only where no ordinary piece does.
  byte_ids_.fill(-1);
  for (const bool special : {false, true}) {
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const std::string& piece = model_.pieces[id];
      if (piece.size() != 1 || is_special[id] != special) continue;
      Id& slot = byte_ids_[static_cast<std::uint8_t>(piece[0])];
      if (slot < 0) slot = static_cast<Id>(id);
    }
  }
}

BpeTokenizer::~BpeTokenizer() = default;

std::string BpeTokenizer::json() const { return tokenizer_json(model_); }

const SpecialToken* BpeTokenizer::special_at(std::string_view bytes, std::size_t at) const {
  for (const SpecialToken* special : specials_by_byte_[static_cast<std::uint8_t>(bytes[at])]) {
    if (bytes.compare(at, special->text.size(), special->text) == 0) return special;
  }
  return nullptr;
}

void BpeTokenizer::encode_words(std::string_view bytes,
                                Scratch& scratch,
                                std::vector<Id>& ids) const {
  std::size_t end = 0;
  for (std::size_t at = 0; at < bytes.size(); at = end) {
    end = scanner_.end_of_word(bytes, at);
    if (end - at > WordCache::kLongestWord) {
      scratch.merger.merge_into(bytes.substr(at, end - at), ids);
      continue;
    }
    const WordCache::Key key = WordCache::key_of(bytes, at, end - at);
    WordCache::Entry& entry = scratch.cache.place_of(key);
    if (entry.key == key) {
      for (const Id id : entry.ids) {
        if (id < 0) break;
        ids.push_back(id);
      }
      continue;
    }
    const std::size_t first = ids.size();
    scratch.merger.merge_into(bytes.substr(at, end - at), ids);
    const std::size_t count = ids.size() - first;
    if (count <= WordCache::kMostIds) {
      entry.key = key;
      entry.ids.fill(-1);
      std::copy_n(ids.end() - static_cast<std::ptrdiff_t>(count), count, entry.ids.begin());
    }
  }
}

void BpeTokenizer::encode_part(std::string_view bytes,
                               Specials specials,
                               std::vector<Id>& ids) const {
  const Lease scratch(*this);
  (*scratch).cache.expect(bytes.size());
  if (specials == Specials::as_text || model_.specials.empty()) {
    encode_words(bytes, *scratch, ids);
    return;
  }
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const SpecialToken* special = special_at(bytes, at);
    if (special == nullptr) {
      ++at;
      continue;
    }
    encode_words(bytes.substr(begin, at - begin), *scratch, ids);
    ids.push_back(special->id);
    at += special->text.size();
    begin = at;
  }
  encode_words(bytes.substr(begin), *scratch, ids);
}

void BpeTokenizer::encode_into(std::string_view bytes,
                               Specials specials,
                               std::vector<Id>& ids) const {
  const std::vector<std::string_view> parts = parts_of(bytes);
  if (parts.size() < 2 || thread_count() < 2) {
    for (const std::string_view part : parts) encode_part(part, specials, ids);
    return;
  }
  std::vector<std::vector<Id>> encoded(parts.size());
  std::exception_ptr failure;  // an exception must not leave a parallel region
#pragma omp parallel for schedule(dynamic)
  for (Index i = 0; i < static_cast<Index>(parts.size()); ++i) {
    try {
      encode_part(
          parts[static_cast<std::size_t>(i)], specials, encoded[static_cast<std::size_t>(i)]);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  std::size_t total = ids.size();
  for (const std::vector<Id>& part : encoded) total += part.size();
  ids.reserve(total);
  for (const std::vector<Id>& part : encoded) ids.insert(ids.end(), part.begin(), part.end());
}

void BpeTokenizer::decode_into(std::span<const Id> ids, std::string& bytes) const {
  require_known(ids);
  for (const Id id : ids) bytes += model_.pieces[static_cast<std::size_t>(id)];
}

}  // namespace norma::text
