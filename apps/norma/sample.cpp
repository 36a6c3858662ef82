// norma sample: text from a model, token by token.
#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/generate/generate.h"
#include "norma/io/byte_source.h"
#include "norma/text/visible.h"
#include "norma/train/trained_model.h"

namespace norma::app {

namespace {

using text::Id;

constexpr std::size_t kLargestPrompt = std::size_t{64} << 20;

/// Samples that are decoded together: more would be little faster, and each needs a cache.
constexpr Index kBatch = 8;

std::string read_prompt(const SampleRequest& request) {
  if (request.prompt_file.empty() && request.prompt != "-") return request.prompt;
  const std::string path = request.prompt_file.empty() ? "-" : request.prompt_file;
  return io::read_text(*io::open_source(io::real_file_system(), path), kLargestPrompt);
}

/// Standard output: as it is into a pipe, without anything that drives it on a terminal.
class Output {
 public:
  void put(std::string_view bytes) {
    if (!terminal_) return write(bytes);
    write(text::visible(characters_.take(bytes), text::Lines::many));
  }
  void end_text() {
    write(text::visible(characters_.rest(), text::Lines::many));
    write("\n");
  }
  void flush() {
    if (std::fflush(stdout) != 0) throw Error("cannot write to standard output.");
  }

 private:
  static void write(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) {
      throw Error("cannot write to standard output.");
    }
  }
  bool terminal_ = ::isatty(STDOUT_FILENO) != 0;
  text::WholeCharacters characters_;
};

class Sampling {
 public:
  Sampling(const SampleRequest& request, std::string prompt, TrainedModel& trained)
      : request_(request),
        trained_(trained),
        tokenizer_(tokenizer_of_run(request.run)),
        prompt_(std::move(prompt)),
        ids_(prompt_ids(*tokenizer_, prompt_, trained.recipe().model.vocab)),
        spec_(spec_for(*tokenizer_, trained.recipe().model.vocab)) {
    spec_.tokens = request.tokens;
    spec_.sampling = {.temperature = request.temperature,
                      .top_k = request.top_k,
                      .top_p = request.top_p,
                      .seed = request.seed};
  }

  void run() {
    for (Index first = 0; first < request_.samples && stop_signal() == 0; first += kBatch) {
      batch(first, std::min(kBatch, request_.samples - first));
    }
  }

 private:
  void batch(Index first, Index count) {
    const bool streams = request_.samples == 1 && !request_.json;
    if (streams) show(prompt_);
    Decoder decoder(trained_.model(), count);
    std::vector<std::vector<Id>> drawn(static_cast<std::size_t>(count));
    spec_.first_sample = first;
    const Stopwatch watch;
    generate(decoder, ids_, spec_, [&](Index sample, Id id) {
      drawn[static_cast<std::size_t>(sample)].push_back(id);
      if (streams) show(tokenizer_->decode({&id, 1}));
      return stop_signal() == 0;
    });
    const double seconds = watch.seconds();
    if (streams) {
      output_.end_text();
      output_.flush();
      return;
    }
    std::size_t tokens = 0;
    for (const auto& ids : drawn) tokens += ids.size();
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      const Index sample = first + static_cast<Index>(i);
      request_.json ? print_json(sample, drawn[i], static_cast<double>(tokens) / seconds)
                    : print_text(sample, drawn[i]);
    }
    output_.flush();
  }

  void show(std::string_view bytes) {
    output_.put(bytes);
    output_.flush();
  }

  void print_text(Index sample, const std::vector<Id>& ids) {
    output_.put(say("--- sample ", sample + 1, " of ", request_.samples, " ---\n"));
    output_.put(prompt_);
    output_.put(tokenizer_->decode(ids));
    output_.end_text();
  }

  void print_json(Index sample, const std::vector<Id>& ids, double tokens_per_s) {
    JsonLine line;
    line.add("prompt", prompt_)
        .add("text", tokenizer_->decode(ids))
        .add("tokens", static_cast<Index>(ids.size()))
        .add("sample", sample)
        .add("seed", static_cast<Index>(request_.seed))
        .add("step", trained_.step())
        .add("tokens_per_s", tokens_per_s);
    std::puts(line.text().c_str());
  }

  const SampleRequest& request_;
  TrainedModel& trained_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::string prompt_;
  std::vector<Id> ids_;
  GenerateSpec spec_;
  Output output_;
};

}  // namespace

int run_sample(const SampleRequest& request) {
  if (!request.prompt.empty() && !request.prompt_file.empty()) {
    throw RequestError("sample: say --prompt or --prompt-file, not both.");
  }
  // A person who waits at a terminal for the end of the prompt can still leave.
  std::string prompt = read_prompt(request);
  watch_stop_signals();
  TrainedModel trained(
      io::real_file_system(), request.run, request.checkpoint, asked_device(request.device));
  for (const std::string& remark : trained.remarks()) {
    std::fprintf(stderr, "norma: note: %s\n", remark.c_str());
  }
  Sampling(request, std::move(prompt), trained).run();
  return stop_signal() == 0 ? 0 : 128 + stop_signal();
}

}  // namespace norma::app
