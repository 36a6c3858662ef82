#include "norma/data/load.h"

#include <algorithm>
#include <cerrno>

#include "norma/base/error.h"
#include "norma/base/json_value.h"
#include "norma/base/text.h"
#include "norma/io/digest.h"
#include "norma/text/bpe_files.h"
#include "norma/text/byte_tokenizer.h"

namespace norma {

namespace {

constexpr std::uint64_t kLargestInfo = 1 << 24;
constexpr std::string_view kMetaName = "meta.json";

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// fineweb_train_000001.bin
std::vector<std::string> shard_names(const std::vector<std::string>& names, std::string_view mark) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.ends_with(".bin") && name.find(mark) != std::string::npos) found.push_back(name);
  }
  return found;
}
constexpr std::string_view kTrainMark = "_train_";
constexpr std::string_view kValMark = "_val_";

TokenView view_of(const std::vector<ShardFile>& files) {
  std::vector<TokenShard> shards;
  shards.reserve(files.size());
  for (const ShardFile& file : files) shards.push_back(file.tokens);
  return TokenView(std::move(shards));
}

class Loader {
 public:
  Loader(const DataSpec& spec, Index model_vocab, io::FileSystem& disk)
      : spec_(spec), model_vocab_(model_vocab), disk_(disk) {}

  Dataset load() {
    if (spec_.path.empty()) {
      throw RequestError("data.path is not set: say data.path=FILE or data.path=FOLDER.");
    }
    const io::FileInfo::Kind kind = kind_of_path();
    if (kind == io::FileInfo::Kind::other) {
      throw RequestError(say("data.path must be a text file or a folder of tokens, but ",
                             spec_.path,
                             " is something else."));
    }
    const bool folder = kind == io::FileInfo::Kind::folder;
    set_.format = folder ? format_of_folder() : DataFormat::text;
    require_fitting(folder);
    if (set_.format == DataFormat::text) load_text();
    if (set_.format == DataFormat::norma) load_norma();
    if (set_.format == DataFormat::nanogpt) load_nanogpt();
    if (set_.format == DataFormat::llmc) load_llmc();
    finish();
    return std::move(set_);
  }

 private:
  std::string at(std::string_view name) const { return io::join(spec_.path, name); }
  std::string read(std::string_view name, std::uint64_t limit) const {
    return io::File(disk_, at(name), io::OpenAs::read).text(limit);
  }

  io::FileInfo::Kind kind_of_path() const {
    try {
      return io::File(disk_, spec_.path, io::OpenAs::look).info().kind;
    } catch (const io::FileError& error) {
      if (error.code() != ENOENT && error.code() != ENOTDIR) throw;
      throw RequestError(say("data.path: there is no file or folder ", spec_.path, "."));
    }
  }

  DataFormat format_of_folder() {
    names_ = io::list_folder(disk_, io::join(spec_.path, ""));
    if (spec_.format != DataFormat::automatic) return spec_.format;
    if (contains(names_, kDatasetName)) return DataFormat::norma;
    const bool nanogpt = contains(names_, kTrainName);
    const bool llmc = !shard_names(names_, kTrainMark).empty();
    if (nanogpt && llmc) {
      throw RequestError(say(spec_.path,
                             " holds both a train.bin and *_train_*.bin: say data.format=nanogpt "
                             "or data.format=llmc."));
    }
    if (nanogpt) return DataFormat::nanogpt;
    if (llmc) return DataFormat::llmc;
    throw RequestError(say(spec_.path,
                           " holds no dataset.json, no train.bin and no *_train_*.bin. Make a data "
                           "set with: norma data text FILES --out FOLDER."));
  }

  void require_fitting(bool folder) const {
    const std::string_view word = word_of(spec_.format);
    if (folder && set_.format == DataFormat::text) {
      throw RequestError(say("data.format=text needs a file, but ", spec_.path, " is a folder."));
    }
    if (folder) return;
    if (spec_.format != DataFormat::automatic && spec_.format != DataFormat::text) {
      throw RequestError(
          say("data.format=", word, " needs a folder, but ", spec_.path, " is a file."));
    }
    if (spec_.format == DataFormat::automatic && spec_.path.ends_with(".bin")) {
      throw RequestError(
          say(spec_.path,
              " looks like a file of token ids: give its folder as data.path, or say "
              "data.format=text to train on its bytes."));
    }
  }

  void load_text() {
    const io::File file(disk_, spec_.path, io::OpenAs::read);
    const std::uint64_t size = file.info().bytes;
    constexpr std::uint64_t kFewest = 64;
    if (size < kFewest) {
      throw RequestError(
          say(spec_.path, " has ", size, " bytes; training needs at least ", kFewest, "."));
    }
    auto bytes = std::make_shared<std::vector<std::byte>>(size);
    file.read(0, *bytes);
    const auto total = static_cast<Index>(size);
    const auto val = static_cast<Index>(static_cast<double>(total) * spec_.val_fraction);
    const TokenView all{bytes->data(), total, 1};
    const text::ByteTokenizer tokenizer;
    TokenData& data = set_.data;
    data.train = all.part(0, total - val);
    data.val = all.part(total - val, val);
    data.vocab = tokenizer.vocab_size();
    data.tokenizer = tokenizer.json();
    fingerprint_ = tokenizer.fingerprint();
    data.held_bytes = size;
    digest_.add(io::Bytes(*bytes).first(static_cast<std::size_t>(total - val)));
    add_to_digest("|");
    digest_.add(io::Bytes(*bytes).subspan(static_cast<std::size_t>(total - val)));
    data.owner = std::move(bytes);
  }

  void load_norma() {
    const std::string path = at(kDatasetName);
    set_.info = parse_dataset_info(path, read(kDatasetName, kLargestInfo));
    const DatasetInfo& info = *set_.info;
    set_.train = open_listed(kTrainName, info.train.file, info);
    set_.val = open_listed(kValName, info.val.file, info);
    set_.data.tokenizer = read(text::kTokenizerFile, text::kLargestTokenizerFile);
    const std::string digest = io::digest_of(std::as_bytes(std::span(set_.data.tokenizer))).text();
    if (digest != info.tokenizer_file.digest) {
      refuse_digest(at(text::kTokenizerFile), digest, info.tokenizer_file.digest);
    }
    fingerprint_ = info.fingerprint;
    set_.data.vocab = static_cast<Index>(info.vocab);
    for (const auto* files : {&set_.train, &set_.val}) {
      for (const ShardFile& file : *files) {
        require_ids_below(file, set_.data.vocab, "the vocabulary in dataset.json");
      }
    }
    set_.data.bytes_per_token = info.val.tokens == 0 ? 0
                                                     : static_cast<double>(info.val.text_bytes) /
                                                           static_cast<double>(info.val.tokens);
    require_model_vocab("its tokenizer");
  }

  std::vector<ShardFile> open_listed(std::string_view name,
                                     const io::ManifestFile& wanted,
                                     const DatasetInfo& info) const {
    // Before the file is read: a wrong size is said as such and not as a wrong digest.
    const io::File file(disk_, at(name), io::OpenAs::read);
    const io::FileInfo found = file.info();
    if (found.kind == io::FileInfo::Kind::file && found.bytes != wanted.bytes) {
      throw Error(say(at(name),
                      " has ",
                      found.bytes,
                      " bytes; dataset.json says ",
                      wanted.bytes,
                      ". It was cut off or changed."));
    }
    if (found.kind == io::FileInfo::Kind::file && wanted.bytes == 0) return {};
    std::vector<ShardFile> files;
    files.push_back(open_raw_shard(disk_, at(name), static_cast<int>(info.token_bytes)));
    if (files[0].digest != wanted.digest) refuse_digest(at(name), files[0].digest, wanted.digest);
    return files;
  }

  [[noreturn]] static void refuse_digest(const std::string& path,
                                         const std::string& found,
                                         const std::string& wanted) {
    throw Error(
        say(path, " was changed: its digest is ", found, ", dataset.json says ", wanted, "."));
  }

  void load_nanogpt() {
    constexpr int kBytes = 2;
    for (const std::string_view name : {kTrainName, kValName}) {
      std::vector<ShardFile>& files = name == kTrainName ? set_.train : set_.val;
      files.push_back(open_raw_shard(disk_, at(name), kBytes));
      if (spec_.format == DataFormat::automatic && begins_like_llmc(files[0].file->bytes())) {
        throw RequestError(
            say(at(name),
                " begins like a shard of llm.c. If it is one, name it NAME_train_000000.bin or "
                "NAME_val_000000.bin; if it holds only ids, say data.format=nanogpt."));
      }
    }
    set_.data.vocab = contains(names_, kMetaName) ? vocab_of_meta() : 0;
    finish_foreign();
  }

  Index vocab_of_meta() const {
    const std::string path = at(kMetaName);
    const JsonValue meta = parse_json(path, read(kMetaName, kLargestInfo));
    const JsonValue* vocab = meta.find("vocab_size");
    constexpr std::int64_t kMost = 1 << 16;
    if (vocab == nullptr || vocab->kind != JsonValue::Kind::integer || vocab->integer < 1 ||
        vocab->integer > kMost) {
      throw Error(say(path, ": vocab_size must be a whole number from 1 to ", kMost, "."));
    }
    for (const auto* files : {&set_.train, &set_.val}) {
      for (const ShardFile& file : *files) {
        require_ids_below(file, vocab->integer, "vocab_size in meta.json");
      }
    }
    return vocab->integer;
  }

  void load_llmc() {
    for (const std::string_view mark : {kTrainMark, kValMark}) {
      const std::vector<std::string> names = shard_names(names_, mark);
      if (names.empty()) throw RequestError(say(spec_.path, " holds no *", mark, "*.bin."));
      std::vector<ShardFile>& files = mark == kTrainMark ? set_.train : set_.val;
      for (const std::string& name : names) files.push_back(open_llmc_shard(disk_, at(name)));
    }
    finish_foreign();
  }

  /// Shards of others say nothing of their vocabulary: the model's counts.
  void finish_foreign() {
    Index largest = 0;
    for (const auto* files : {&set_.train, &set_.val}) {
      for (const ShardFile& file : *files) {
        if (model_vocab_ > 0) require_ids_below(file, model_vocab_, "model.vocab");
        largest = std::max(largest, file.largest);
      }
    }
    if (set_.data.vocab == 0) set_.data.vocab = largest + 1;
    set_.data.bytes_per_token = 0;
    if (contains(names_, text::kTokenizerFile)) {
      set_.data.tokenizer = read(text::kTokenizerFile, text::kLargestTokenizerFile);
      const text::BpeModel model =
          text::read_tokenizer_json(at(text::kTokenizerFile), set_.data.tokenizer);
      fingerprint_ = text::fingerprint_of(model);
    }
    require_model_vocab("the data");
  }

  void require_model_vocab(std::string_view who) const {
    if (model_vocab_ == 0 || set_.data.vocab <= model_vocab_) return;
    throw RequestError(say(spec_.path,
                           ": ",
                           who,
                           " has ",
                           set_.data.vocab,
                           " token ids, but model.vocab is ",
                           model_vocab_,
                           ". Say model.vocab=",
                           set_.data.vocab,
                           " or more."));
  }

  void add_to_digest(std::string_view text) {
    digest_.add(std::as_bytes(std::span(text.data(), text.size())));
  }

  void finish() {
    TokenData& data = set_.data;
    const std::string folder = spec_.path.substr(0, spec_.path.find_last_not_of('/') + 1);
    data.description = say(folder.substr(folder.rfind('/') + 1),
                           ", ",
                           set_.format == DataFormat::text ? "bytes" : word_of(set_.format));
    if (set_.format != DataFormat::text) {
      data.train = view_of(set_.train);
      data.val = view_of(set_.val);
      for (const ShardFile& file : set_.train) add_to_digest(file.digest);
      add_to_digest("|");
      for (const ShardFile& file : set_.val) add_to_digest(file.digest);
      auto owner = std::make_shared<std::vector<std::shared_ptr<io::MappedFile>>>();
      for (const ShardFile& file : set_.train) owner->push_back(file.file);
      for (const ShardFile& file : set_.val) owner->push_back(file.file);
      data.owner = std::move(owner);
    }
    add_to_digest(say("|", fingerprint_));
    data.digest = digest_.digest().text();
  }

  const DataSpec& spec_;
  Index model_vocab_;
  io::FileSystem& disk_;
  std::vector<std::string> names_;  // in the folder
  std::string fingerprint_;         // of the tokenizer; empty: not known
  io::Hasher digest_;
  Dataset set_;
};

}  // namespace

Dataset open_dataset(const DataSpec& spec, Index model_vocab, io::FileSystem& disk) {
  return Loader(spec, model_vocab, disk).load();
}

TokenData load_data(const DataSpec& spec, Index model_vocab, io::FileSystem& disk) {
  return open_dataset(spec, model_vocab, disk).data;
}

}  // namespace norma
