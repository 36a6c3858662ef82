#include "norma/data/build.h"

#include <algorithm>
#include <exception>

#include "norma/base/error.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/data/documents.h"
#include "norma/data/inputs.h"
#include "norma/data/split.h"
#include "norma/data/split_file.h"
#include "norma/io/byte_source.h"
#include "norma/io/temporary_folder.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_model.h"
#include "norma/text/visible.h"

namespace norma {

namespace {

constexpr std::size_t kBatchBytes = std::size_t{16} << 20;  // of text encoded together
constexpr std::uint64_t kMostShortIds = 1 << 16;

/// Leaves the reading of a document from inside.
struct Stopped {};

struct Piece {
  std::string text;
  bool last = false;  // of its document
  bool validation = false;
  std::vector<text::Id> ids = {};
};

class Builder {
 public:
  Builder(const BuildSpec& spec,
          const text::Tokenizer& tokenizer,
          const std::function<void(const BuildProgress&)>& onlooker,
          io::FileSystem& disk)
      : spec_(spec),
        tokenizer_(tokenizer),
        onlooker_(onlooker),
        disk_(disk),
        token_bytes_(static_cast<std::uint64_t>(tokenizer.vocab_size()) > kMostShortIds ? 4 : 2),
        end_of_text_(tokenizer.special_id(text::kEndOfText)),
        document_end_(end_of_text_ >= 0 ? std::vector<text::Id>{end_of_text_}
                                        : tokenizer.encode("\n")) {}

  BuildResult build() {
    require_free_place();
    const Inputs inputs = find_inputs(disk_, spec_.inputs);
    result_.files = inputs.files.size();
    result_.skipped = inputs.skipped;
    set_total(inputs);
    io::make_folders(disk_, io::parent_of(spec_.out));
    io::TemporaryFolder folder(disk_, place());
    train_.emplace(disk_, io::join(folder.path(), kTrainName), token_bytes_);
    folder_ = folder.path();
    try {
      for (const InputFile& input : inputs.files) read(input);
      encode_batch();
    } catch (const Stopped&) {
      result_.stopped = true;
      return std::move(result_);
    }
    finish_splits();
    write_info(inputs);
    require_free_place();
    folder.give_name();
    return std::move(result_);
  }

 private:
  /// The folder as its last part is a name: "a/b/" is "a/b".
  std::string place() const {
    return spec_.out.substr(0, std::max<std::size_t>(spec_.out.find_last_not_of('/') + 1, 1));
  }

  void require_free_place() const {
    const io::Answer found = disk_.open(place(), io::OpenAs::look);
    if (found.error != 0) return;
    disk_.close(static_cast<int>(found.value));
    throw RequestError(
        say("--out ", spec_.out, " is there already; remove it, or choose another name."));
  }

  void set_total(const Inputs& inputs) {
    progress_.total = 0;
    for (const InputFile& input : inputs.files) {
      if (!input.bytes) {
        progress_.total.reset();
        return;
      }
      *progress_.total += *input.bytes;
    }
  }

  void read(const InputFile& input) {
    const auto source = io::open_source(disk_, input.path);
    const std::uint64_t before = progress_.read;
    std::uint64_t offset = 0;  // of the text
    bool warned = false;
    const TakePiece take = [&](std::string_view piece, bool last) {
      if (stop_signal() != 0) throw Stopped{};
      const std::size_t nul = piece.find('\0');
      if (nul != std::string_view::npos && !warned) {
        warned = true;
        note_binary(input.path, offset + nul);
      }
      offset += piece.size();
      progress_.read = before + source->position();
      add(piece, last);
    };
    const bool jsonl = input.jsonl || (input.path == "-" && spec_.stdin_is_jsonl);
    if (jsonl) {
      read_jsonl_documents(*source, spec_.field, take);
    } else {
      read_text_documents(*source, spec_.separator, take);
    }
    progress_.read = before + source->position();
  }

  void note_binary(const std::string& path, std::uint64_t offset) {
    constexpr std::uint64_t kMost = 3;
    if (++binary_ > kMost) return;
    result_.warnings.push_back(say(text::visible(path),
                                   " holds a NUL byte (the first is byte ",
                                   offset,
                                   " of its text): is it text? It was encoded as it is."));
  }

  void add(std::string_view piece, bool last) {
    document_bytes_ += piece.size();
    const bool empty = last && document_bytes_ == 0;
    if (empty) {
      ++result_.empty;
      return;
    }
    pieces_.push_back({.text = std::string(piece),
                       .last = last,
                       .validation = is_validation(documents_, spec_.val_fraction, spec_.seed)});
    batch_bytes_ += piece.size();
    if (last) {
      ++documents_;
      document_bytes_ = 0;
    }
    if (batch_bytes_ >= kBatchBytes) encode_batch();
  }

  void encode_batch() {
    std::exception_ptr failure;  // an exception must not leave a parallel region
#pragma omp parallel for schedule(dynamic)
    for (Index i = 0; i < static_cast<Index>(pieces_.size()); ++i) {
      Piece& piece = pieces_[static_cast<std::size_t>(i)];
      try {
        // What a document says is text: it must not be able to end itself.
        tokenizer_.encode_into(piece.text, text::Specials::as_text, piece.ids);
      } catch (...) {
#pragma omp critical
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    for (const Piece& piece : pieces_) put(piece);
    pieces_.clear();
    batch_bytes_ = 0;
    onlooker_(progress_);
    if (stop_signal() != 0) throw Stopped{};
  }

  void put(const Piece& piece) {
    if (piece.validation && !val_) {
      val_.emplace(disk_, io::join(folder_, kValName), token_bytes_);
    }
    SplitFile& split = piece.validation ? *val_ : *train_;
    split.write(piece.ids, piece.text.size());
    progress_.tokens += piece.ids.size();
    progress_.text_bytes += piece.text.size();
    if (!piece.last) return;
    split.write(document_end_, end_of_text_ >= 0 ? 0 : 1);
    split.end_document();
    progress_.tokens += document_end_.size();
  }

  void finish_splits() {
    if (documents_ == 0) {
      throw RequestError(say("the inputs hold no text (", result_.files, " files, all empty)."));
    }
    DatasetInfo& info = result_.info;
    info.train = train_->finish();
    if (val_) {
      info.val = val_->finish();
      return;
    }
    split_tail(disk_,
               {.train = io::join(folder_, kTrainName),
                .val = io::join(folder_, kValName),
                .share = spec_.val_fraction,
                .token_bytes = token_bytes_,
                .end_of_text = end_of_text_},
               tokenizer_,
               info.train,
               info.val);
  }

  void write_info(const Inputs& inputs) {
    DatasetInfo& info = result_.info;
    if (binary_ > result_.warnings.size()) {
      result_.warnings.push_back(say(binary_, " inputs in all hold NUL bytes."));
    }
    io::HashedFile json(disk_, io::join(folder_, text::kTokenizerFile));
    io::write_text(json, tokenizer_.json());
    info.tokenizer_file = json.finish();
    info.tokenizer = text::visible(tokenizer_.name());
    info.fingerprint = tokenizer_.fingerprint();
    info.vocab = static_cast<std::uint64_t>(tokenizer_.vocab_size());
    info.token_bytes = token_bytes_;
    info.seed = spec_.seed;
    info.val_fraction = to_text(spec_.val_fraction);
    info.licence = text::visible(spec_.licence);
    constexpr std::size_t kMostNamed = 1000;
    for (const InputFile& input : inputs.files) {
      if (info.inputs.size() == kMostNamed) {
        info.inputs.push_back(say("… and ", inputs.files.size() - kMostNamed, " more"));
        break;
      }
      info.inputs.push_back(text::visible(input.path));
    }
    io::HashedFile file(disk_, io::join(folder_, kDatasetName));
    io::write_text(file, text_of(info));
    file.finish();
  }

  const BuildSpec& spec_;
  const text::Tokenizer& tokenizer_;
  const std::function<void(const BuildProgress&)>& onlooker_;
  io::FileSystem& disk_;
  std::uint64_t token_bytes_;
  text::Id end_of_text_;  // −1: there is none
  std::vector<text::Id> document_end_;
  std::string folder_;  // the temporary one
  std::optional<SplitFile> train_;
  std::optional<SplitFile> val_;  // made with its first document
  std::vector<Piece> pieces_;     // waiting to be encoded
  std::size_t batch_bytes_ = 0;
  std::uint64_t documents_ = 0;
  std::uint64_t document_bytes_ = 0;  // of the one that is being read
  std::uint64_t binary_ = 0;          // inputs with NUL bytes
  BuildProgress progress_;
  BuildResult result_;
};

}  // namespace

BuildResult build_dataset(const BuildSpec& spec,
                          const text::Tokenizer& tokenizer,
                          const std::function<void(const BuildProgress&)>& onlooker,
                          io::FileSystem& disk) {
  return Builder(spec, tokenizer, onlooker, disk).build();
}

}  // namespace norma
