// norma data text: texts become a folder of tokens.
#include <cstdio>

#include "apps/norma/progress.h"
#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/stop.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/data/build.h"
#include "norma/text/load.h"

namespace norma::app {

namespace {

std::string line_of(const BuildProgress& progress, double seconds) {
  const auto read = static_cast<double>(progress.read);
  std::string line = say(human_bytes(read));
  if (progress.total) line += say(" of ", human_bytes(static_cast<double>(*progress.total)));
  line += say(" read, ", progress.tokens, " tokens");
  if (seconds <= 0) return line;
  line += say(", ", fixed(static_cast<double>(progress.text_bytes) * 1e-6 / seconds, 1), " MB/s");
  if (progress.total && read > 0) {
    const double left = static_cast<double>(*progress.total) - read;
    line += say(", ETA ", clock_text(left / read * seconds));
  }
  return line;
}

double share_of(const BuildProgress& progress) {
  if (!progress.total || *progress.total == 0) return 0;
  return static_cast<double>(progress.read) / static_cast<double>(*progress.total);
}

std::string sentence(const char* name, const SplitInfo& split) {
  const double bytes = static_cast<double>(split.text_bytes);
  return say(name,
             " ",
             split.tokens,
             " tokens, ",
             split.documents,
             " documents, ",
             human_bytes(bytes),
             " of text",
             split.tokens == 0
                 ? ""
                 : say(", ", fixed(bytes / static_cast<double>(split.tokens), 2), " bytes a token"),
             "\n");
}

void report(const DataTextRequest& request, const BuildResult& result, double seconds) {
  const DatasetInfo& info = result.info;
  if (request.json) {
    JsonLine line;
    line.add("out", request.out)
        .add("tokenizer", info.tokenizer)
        .add("fingerprint", info.fingerprint)
        .add("vocab", static_cast<Index>(info.vocab))
        .add("files", static_cast<Index>(result.files))
        .add("skipped", static_cast<Index>(result.skipped))
        .add("empty", static_cast<Index>(result.empty));
    for (const auto& [name, split] : {std::pair("train", &info.train), {"val", &info.val}}) {
      line.add(say(name, "/tokens"), static_cast<Index>(split->tokens))
          .add(say(name, "/documents"), static_cast<Index>(split->documents))
          .add(say(name, "/text_bytes"), static_cast<Index>(split->text_bytes))
          .add(say(name, "/digest"), split->file.digest);
    }
    line.add("seconds", seconds);
    std::puts(line.text().c_str());
    return;
  }
  std::fputs(say(request.out,
                 ": tokenizer ",
                 info.tokenizer,
                 ", ",
                 info.vocab,
                 " ids, ",
                 info.token_bytes,
                 " bytes each, from ",
                 result.files,
                 result.files == 1 ? " file in " : " files in ",
                 fixed(seconds, 1),
                 " s\n  ",
                 sentence("train", info.train),
                 "  ",
                 sentence("val  ", info.val))
                 .c_str(),
             stdout);
  if (result.skipped > 0) {
    std::printf("  skipped %llu files that are not .txt, .md or .jsonl\n",
                static_cast<unsigned long long>(result.skipped));
  }
  std::printf("Look at it with: norma data inspect %s\n", request.out.c_str());
}

}  // namespace

int run_data_text(const DataTextRequest& request) {
  watch_stop_signals();
  const ThreadScope threads(request.threads == 0 ? thread_count() : request.threads);
  const auto tokenizer = text::load_tokenizer(request.tokenizer);
  BuildSpec spec;
  spec.inputs = request.inputs;
  spec.out = request.out;
  spec.val_fraction = request.val_fraction;
  spec.seed = request.seed;
  if (request.separator) spec.separator = *request.separator;
  if (request.field) spec.field = *request.field;
  spec.stdin_is_jsonl = request.field.has_value();
  spec.licence = request.licence;

  const Stopwatch watch;
  StatusLine status;
  const BuildResult result = build_dataset(spec, *tokenizer, [&](const BuildProgress& progress) {
    status.show(share_of(progress), line_of(progress, watch.seconds()));
  });
  status.finish();
  for (const std::string& warning : result.warnings) {
    std::fprintf(stderr, "norma: warning: %s\n", warning.c_str());
  }
  if (result.stopped) {
    std::fprintf(stderr,
                 "norma: note: stopped by signal %d; nothing was left at %s.\n",
                 stop_signal(),
                 request.out.c_str());
    return 128 + stop_signal();
  }
  report(request, result, watch.seconds());
  return 0;
}

}  // namespace norma::app
