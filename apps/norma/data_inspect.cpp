// norma data inspect: what a folder of tokens holds.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "apps/norma/requests.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/data/load.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/load.h"
#include "norma/text/visible.h"

namespace norma::app {

namespace {

struct Frequency {
  Index id = 0;
  std::uint64_t count = 0;
};

std::vector<Frequency> most_frequent(const TokenData& data, std::size_t most) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(data.vocab));
  for (const TokenShard& shard : data.train.shards) {
    for (Index i = 0; i < shard.count; ++i) ++counts[static_cast<std::size_t>(shard[i])];
  }
  std::vector<Frequency> all;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) all.push_back({static_cast<Index>(id), counts[id]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Frequency& a, const Frequency& b) {
    return a.count > b.count;
  });
  if (all.size() > most) all.resize(most);
  return all;
}

class Inspection {
 public:
  explicit Inspection(const DataInspectRequest& request)
      : request_(request), set_(open_dataset({.path = request.path}, 0)) {
    if (!request.tokenizer.empty()) {
      tokenizer_ = text::load_tokenizer(request.tokenizer);
    } else if (!set_.data.tokenizer.empty()) {
      tokenizer_ = std::make_unique<text::BpeTokenizer>(
          text::read_tokenizer_json(say(request.path, "'s tokenizer.json"), set_.data.tokenizer));
    }
    if (tokenizer_ && tokenizer_->vocab_size() < set_.data.vocab) {
      throw RequestError(say("the tokenizer ",
                             tokenizer_->name(),
                             " has ",
                             tokenizer_->vocab_size(),
                             " ids, but ",
                             request.path,
                             " has ",
                             set_.data.vocab,
                             "."));
    }
  }

  void print() const {
    std::printf("%s\n", text::visible(set_.data.description).c_str());
    if (set_.info) {
      std::printf("tokenizer  %s, %llu ids, fingerprint %s\n",
                  set_.info->tokenizer.c_str(),
                  static_cast<unsigned long long>(set_.info->vocab),
                  set_.info->fingerprint.c_str());
      if (!set_.info->licence.empty()) {
        std::printf("licence    %s\n", text::visible(set_.info->licence).c_str());
      }
    } else {
      std::printf("ids        0 to %lld\n", static_cast<long long>(set_.data.vocab - 1));
    }
    std::printf("digest     %s\n", set_.data.digest.c_str());
    print_split("train", set_.data.train, set_.train, set_.info ? &set_.info->train : nullptr);
    print_split("val", set_.data.val, set_.val, set_.info ? &set_.info->val : nullptr);
    std::puts("most frequent in train");
    const auto total = static_cast<double>(std::max<Index>(set_.data.train.count, 1));
    for (const Frequency& entry : most_frequent(set_.data, kShown)) {
      std::printf("  %8lld %12llu  %5.2f %%  %s\n",
                  static_cast<long long>(entry.id),
                  static_cast<unsigned long long>(entry.count),
                  100 * static_cast<double>(entry.count) / total,
                  shown({static_cast<text::Id>(entry.id)}).c_str());
    }
    std::printf("sample of train\n  %s\n", sample(set_.data.train).c_str());
    std::printf("sample of val\n  %s\n", sample(set_.data.val).c_str());
  }

  void print_json() const {
    JsonLine head;
    head.add("kind", "dataset")
        .add("path", request_.path)
        .add("format", word_of(set_.format))
        .add("vocab", set_.data.vocab)
        .add("digest", set_.data.digest);
    if (set_.info) {
      head.add("tokenizer", set_.info->tokenizer)
          .add("fingerprint", set_.info->fingerprint)
          .add("licence", set_.info->licence);
    }
    std::puts(head.text().c_str());
    print_split_json("train", set_.data.train, set_.info ? &set_.info->train : nullptr);
    print_split_json("val", set_.data.val, set_.info ? &set_.info->val : nullptr);
    for (const Frequency& entry : most_frequent(set_.data, kShown)) {
      JsonLine line;
      line.add("kind", "token")
          .add("id", entry.id)
          .add("count", static_cast<Index>(entry.count))
          .add("text", shown({static_cast<text::Id>(entry.id)}));
      std::puts(line.text().c_str());
    }
  }

 private:
  static constexpr std::size_t kShown = 20;

  static void print_split(const char* name,
                          const TokenView& tokens,
                          const std::vector<ShardFile>& files,
                          const SplitInfo* info) {
    std::printf("%-10s %lld tokens", name, static_cast<long long>(tokens.count));
    if (info != nullptr) {
      std::printf(", %llu documents, %s of text",
                  static_cast<unsigned long long>(info->documents),
                  human_bytes(static_cast<double>(info->text_bytes)).c_str());
      if (info->tokens > 0) {
        std::printf(", %.3f bytes a token",
                    static_cast<double>(info->text_bytes) / static_cast<double>(info->tokens));
      }
    }
    std::puts("");
    for (const ShardFile& file : files) {
      std::printf("  %s  %s, digest %s%s\n",
                  text::visible(file.path).c_str(),
                  human_bytes(static_cast<double>(file.file->bytes().size())).c_str(),
                  file.digest.c_str(),
                  info != nullptr ? ", verified" : "");
    }
  }

  void print_split_json(const char* name, const TokenView& tokens, const SplitInfo* info) const {
    JsonLine line;
    line.add("kind", "split").add("split", name).add("tokens", tokens.count);
    if (info != nullptr) {
      line.add("documents", static_cast<Index>(info->documents))
          .add("text_bytes", static_cast<Index>(info->text_bytes))
          .add("bytes", static_cast<Index>(info->file.bytes))
          .add("digest", info->file.digest);
    }
    line.add("sample", sample(tokens));
    std::puts(line.text().c_str());
  }

  std::string shown(const std::vector<text::Id>& ids) const {
    if (tokenizer_) return text::visible(tokenizer_->decode(ids));
    std::string numbers;
    for (const text::Id id : ids) numbers += say(numbers.empty() ? "" : " ", id);
    return numbers;
  }

  std::string sample(const TokenView& tokens) const {
    constexpr Index kTokens = 80;
    std::vector<text::Id> ids;
    for (Index i = 0; i < std::min(kTokens, tokens.count); ++i) ids.push_back(tokens[i]);
    return shown(ids);
  }

  const DataInspectRequest& request_;
  Dataset set_;
  std::unique_ptr<text::Tokenizer> tokenizer_;  // null: ids are shown as numbers
};

}  // namespace

int run_data_inspect(const DataInspectRequest& request) {
  const Inspection inspection(request);
  request.json ? inspection.print_json() : inspection.print();
  return 0;
}

}  // namespace norma::app
