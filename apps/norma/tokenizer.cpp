// norma tokenizer: train, encode, decode.
#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include <unistd.h>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/io/file.h"
#include "norma/text/blocks.h"
#include "norma/text/bpe_files.h"
#include "norma/text/bpe_tokenizer.h"
#include "norma/text/bpe_training.h"
#include "norma/text/load.h"

namespace norma::app {

namespace {

using text::Id;

constexpr std::size_t kBlockBytes = std::size_t{16} << 20;

void put(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) {
    throw Error("cannot write to standard output.");
  }
}

void finish_output() {
  if (std::fflush(stdout) != 0) throw Error("cannot write to standard output.");
}

/// Bytes of one id in a binary file; 0: ids are text.
std::size_t width_of(const std::string& binary) {
  if (binary.empty()) return 0;
  return binary == "uint16" ? 2 : 4;
}

void append_ids(const std::vector<Id>& ids, std::size_t width, std::string& out) {
  for (const Id id : ids) {
    if (width == 0) {
      std::array<char, 12> digits{};
      out += ' ';
      out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), id).ptr);
      continue;
    }
    for (std::size_t i = 0; i < width; ++i) {
      out += static_cast<char>((static_cast<std::uint32_t>(id) >> (8 * i)) & 0xFFU);
    }
  }
}

std::vector<Id> binary_ids(const std::string& input, std::string_view bytes, std::size_t width) {
  if (bytes.size() % width != 0) {
    throw Error(
        say(input, ": ", bytes.size(), " bytes are no whole number of ", width, "-byte ids."));
  }
  std::vector<Id> ids;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint32_t id = 0;
    for (std::size_t i = 0; i < width; ++i) {
      id |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    }
    ids.push_back(static_cast<Id>(id));
  }
  return ids;
}

std::vector<Id> text_ids(const std::string& input, std::string_view words) {
  std::vector<Id> ids;
  const char* at = words.data();
  const char* const end = words.data() + words.size();
  while (true) {
    while (at != end && text::is_ascii_space(*at)) ++at;
    if (at == end) return ids;
    Id id = 0;
    const auto [after, error] = std::from_chars(at, end, id);
    if (error != std::errc{} || (after != end && !text::is_ascii_space(*after))) {
      throw Error(say(input,
                      ": ids must be whole numbers with spaces between them; number ",
                      ids.size() + 1,
                      " is not."));
    }
    ids.push_back(id);
    at = after;
  }
}

}  // namespace

int run_tokenizer_train(const TokenizerTrainRequest& request) {
  text::BpeTrainer trainer({.vocab_size = request.vocab});
  const Stopwatch watch;
  std::size_t bytes = 0;
  for (const std::string& input : request.inputs) {
    text::for_each_block(input, kBlockBytes, [&](std::string_view block) {
      trainer.add(block);
      bytes += block.size();
    });
  }
  const bool shown = ::isatty(STDERR_FILENO) != 0;
  const text::BpeModel model = trainer.train([&](std::size_t made, std::size_t wanted) {
    if (shown) std::fprintf(stderr, "\r%zu of %zu merges", made, wanted);
  });
  if (shown) std::fputs("\n", stderr);
  io::replace_file(io::real_file_system(), request.out, text::tokenizer_json(model));

  const text::BpeTokenizer tokenizer(model);
  if (request.json) {
    JsonLine line;
    line.add("out", request.out)
        .add("vocab", tokenizer.vocab_size())
        .add("merges", static_cast<Index>(model.merges.size()))
        .add("bytes", static_cast<Index>(bytes))
        .add("seconds", watch.seconds())
        .add("fingerprint", tokenizer.fingerprint());
    put(line.text() + "\n");
  } else {
    put(say(request.out,
            ": ",
            tokenizer.vocab_size(),
            " ids from ",
            human_bytes(static_cast<double>(bytes)),
            " in ",
            fixed(watch.seconds(), 1),
            " s, fingerprint ",
            tokenizer.fingerprint(),
            "\n"));
  }
  finish_output();
  if (tokenizer.vocab_size() < request.vocab) {
    std::fprintf(stderr,
                 "norma: note: only %d of %d ids, because no other pair of pieces occurs twice.\n",
                 tokenizer.vocab_size(),
                 request.vocab);
  }
  return 0;
}

int run_tokenizer_encode(const TokenizerEncodeRequest& request) {
  const std::size_t width = width_of(request.binary);
  const ThreadScope threads(request.threads == 0 ? thread_count() : request.threads);
  const auto tokenizer = text::load_tokenizer(request.tokenizer);
  if (width == 2 && tokenizer->vocab_size() > 65536) {
    throw RequestError(say("the tokenizer ",
                           tokenizer->name(),
                           " has ",
                           tokenizer->vocab_size(),
                           " ids, which do not fit into uint16; use --binary uint32."));
  }
  const auto specials = request.specials ? text::Specials::recognized : text::Specials::as_text;
  std::vector<Id> ids;
  std::string out;
  bool first = true;
  text::for_each_block(request.input, kBlockBytes, [&](std::string_view block) {
    ids.clear();
    out.clear();
    tokenizer->encode_into(block, specials, ids);
    append_ids(ids, width, out);
    // Text separates ids by a space, binary by nothing: the very first one has none before it.
    const bool skip = first && width == 0 && !out.empty();
    put(std::string_view(out).substr(skip ? 1 : 0));
    first = first && out.empty();
  });
  if (width == 0) put("\n");
  finish_output();
  return 0;
}

int run_tokenizer_decode(const TokenizerDecodeRequest& request) {
  const std::size_t width = width_of(request.binary);
  const auto tokenizer = text::load_tokenizer(request.tokenizer);
  std::string bytes;
  text::for_each_block(request.input, kBlockBytes, [&](std::string_view block) { bytes += block; });
  const std::vector<Id> ids =
      width == 0 ? text_ids(request.input, bytes) : binary_ids(request.input, bytes, width);
  put(tokenizer->decode(ids));
  finish_output();
  return 0;
}

}  // namespace norma::app
