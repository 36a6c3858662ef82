#include "norma/data/dataset_info.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/seal.h"
#include "norma/io/strict_json.h"

namespace norma {

namespace {

using io::json_string;
using io::StrictJson;

constexpr std::string_view kFormat = "norma-dataset";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kMostIds = 1 << 24;

std::string split_text(std::string_view name, const SplitInfo& split) {
  return say("\n    ",
             json_string(name),
             ": {\"tokens\": ",
             split.tokens,
             ", \"documents\": ",
             split.documents,
             ", \"text_bytes\": ",
             split.text_bytes,
             ", \"bytes\": ",
             split.file.bytes,
             ", \"xxh3_128\": ",
             json_string(split.file.digest),
             "}");
}

[[noreturn]] void refuse_key(const StrictJson& json, const std::string& key) {
  json.refuse(say("unknown key ", io::json_string_start(key), "."));
}

SplitInfo read_split(StrictJson& json) {
  SplitInfo split;
  json.object([&](const std::string& key) {
    if (key == "tokens") {
      split.tokens = json.integer();
    } else if (key == "documents") {
      split.documents = json.integer();
    } else if (key == "text_bytes") {
      split.text_bytes = json.integer();
    } else if (key == "bytes") {
      split.file.bytes = json.integer();
    } else if (key == "xxh3_128") {
      split.file.digest = json.string();
    } else {
      refuse_key(json, key);
    }
  });
  return split;
}

void read_tokenizer(StrictJson& json, DatasetInfo& info) {
  json.object([&](const std::string& key) {
    if (key == "name") {
      info.tokenizer = json.string();
    } else if (key == "fingerprint") {
      info.fingerprint = json.string();
    } else if (key == "vocab") {
      info.vocab = json.integer();
    } else if (key == "bytes") {
      info.tokenizer_file.bytes = json.integer();
    } else if (key == "xxh3_128") {
      info.tokenizer_file.digest = json.string();
    } else {
      refuse_key(json, key);
    }
  });
}

void require_sense(std::string_view path, const DatasetInfo& info) {
  if (info.vocab < 1 || info.vocab > kMostIds) {
    throw Error(
        say(path, ": a vocabulary of ", info.vocab, " ids; 1 to ", kMostIds, " were expected."));
  }
  if (info.token_bytes != 2 && info.token_bytes != 4) {
    throw Error(say(path, ": ", info.token_bytes, " bytes a token; 2 or 4 were expected."));
  }
  for (const auto& [name, split] : {std::pair(kTrainName, &info.train), {kValName, &info.val}}) {
    if (split->file.bytes % info.token_bytes != 0 ||
        split->file.bytes / info.token_bytes != split->tokens) {
      throw Error(say(path,
                      ": ",
                      split->tokens,
                      " tokens of ",
                      info.token_bytes,
                      " bytes are not the ",
                      split->file.bytes,
                      " bytes that ",
                      name,
                      " is said to have."));
    }
  }
}

}  // namespace

std::string text_of(const DatasetInfo& info) {
  std::string body = say("{\n  \"format\": ",
                         json_string(kFormat),
                         ",\n  \"version\": ",
                         kVersion,
                         ",\n  \"tokenizer\": {\"name\": ",
                         json_string(info.tokenizer),
                         ", \"fingerprint\": ",
                         json_string(info.fingerprint),
                         ", \"vocab\": ",
                         info.vocab,
                         ", \"bytes\": ",
                         info.tokenizer_file.bytes,
                         ", \"xxh3_128\": ",
                         json_string(info.tokenizer_file.digest),
                         "},\n  \"token_bytes\": ",
                         info.token_bytes);
  body += say(",\n  \"splits\": {",
              split_text("train", info.train),
              ",",
              split_text("val", info.val),
              "\n  },\n  \"seed\": ",
              info.seed,
              ",\n  \"val_fraction\": ",
              json_string(info.val_fraction),
              ",\n  \"licence\": ",
              json_string(info.licence),
              ",\n  \"inputs\": [");
  for (std::size_t i = 0; i < info.inputs.size(); ++i) {
    body += say(i == 0 ? "" : ", ", json_string(info.inputs[i]));
  }
  return io::sealed(body + "]");
}

DatasetInfo parse_dataset_info(std::string_view path, std::string_view text) {
  DatasetInfo info;
  StrictJson json{std::string(path), text};
  json.object([&](const std::string& key) {
    if (key == "format") {
      const std::string format = json.string();
      if (format != kFormat) {
        json.refuse(
            say("expected the format ", kFormat, ", found ", io::json_string_start(format), "."));
      }
    } else if (key == "version") {
      const std::uint64_t version = json.integer();
      if (version != kVersion) {
        json.refuse(say("this program reads version ", kVersion, ", found version ", version, "."));
      }
    } else if (key == "tokenizer") {
      read_tokenizer(json, info);
    } else if (key == "token_bytes") {
      info.token_bytes = json.integer();
    } else if (key == "splits") {
      json.object([&](const std::string& split) {
        if (split != "train" && split != "val") refuse_key(json, split);
        (split == "train" ? info.train : info.val) = read_split(json);
      });
    } else if (key == "seed") {
      info.seed = json.integer();
    } else if (key == "val_fraction") {
      info.val_fraction = json.string();
    } else if (key == "licence") {
      info.licence = json.string();
    } else if (key == "inputs") {
      json.array([&] { info.inputs.push_back(json.string()); });
    } else if (key == "digest") {
      json.string();
    } else {
      refuse_key(json, key);
    }
  });
  json.end();
  // After the version, so that a file of a later program is told so and not that it is damaged.
  io::require_seal(path, text);
  require_sense(path, info);
  // One form only: a key that is missing or comes at another place cannot slip through.
  if (text_of(info) != text) {
    throw Error(say(path, " is not in the form in which this program writes it."));
  }
  return info;
}

}  // namespace norma
