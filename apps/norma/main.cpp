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
  verb->add_option("--device", request->device, "where to compute")->capture_default_str();
  verb->add_option("--dtype", request->dtype, "the type to compare with f64")
      ->capture_default_str();
  verb->add_option("--seed", request->seed, "random inputs")->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_check(*request); };
}

Verb declare_bench_kernels(CLI::App& bench, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::BenchKernelsRequest>();
  verb = bench.add_subcommand("kernels", "Time every op against the machine's own ceilings");
  verb->footer("Example: norma bench kernels attention");
  verb->add_option("op", request->op, "one op; all when absent");
  verb->add_option("--device", request->device, "where to compute")->capture_default_str();
  verb->add_option("--threads", request->threads, "threads; 0: all cores")->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_bench_kernels(*request); };
}

Verb declare_bench_train(CLI::App& bench, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::BenchTrainRequest>();
  verb = bench.add_subcommand("train", "Time whole training steps of a GPT");
  verb->footer("Example: norma bench train --case gpt-d128 --json");
  verb->add_option("--case", request->name, "gpt-d128, gpt-d192 or gpt-d384")->required();
  verb->add_option("--scheme", request->scheme, "a scheme, see norma schemes")
      ->capture_default_str();
  verb->add_option("--optimizer", request->optimizer, "adamw, sgdw, lion, muon, ...")
      ->capture_default_str();
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
      "--out runs/a");
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

Verb declare_eval(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::EvalRequest>();
  verb = app.add_subcommand("eval", "Evaluate the newest checkpoint of a run");
  verb->footer("Example: norma eval runs/a --split val --json");
  verb->add_option("run", request->run, "the folder of the run")->required();
  verb->add_option("--split", request->split, "val or train")->capture_default_str();
  verb->add_option("--data", request->data, "another text file instead of the run's own");
  verb->add_option("--tokens", request->tokens, "how many, spread evenly; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_eval(*request); };
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

Verb declare_doctor(CLI::App& app, CLI::App*& verb) {
  auto request = std::make_shared<norma::app::DoctorRequest>();
  verb = app.add_subcommand("doctor", "Show what this build and this machine have");
  verb->footer("Example: norma doctor");
  verb->add_flag("--json", request->json, "one JSON object a line");
  return [request] { return norma::app::run_doctor(*request); };
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

  struct Entry {
    CLI::App* verb = nullptr;
    Verb run;
  };
  std::vector<Entry> entries(12);
  entries[0].run = declare_check(app, entries[0].verb);
  entries[1].run = declare_bench_kernels(*bench, entries[1].verb);
  entries[2].run = declare_bench_train(*bench, entries[2].verb);
  entries[3].run = declare_doctor(app, entries[3].verb);
  entries[4].run = declare_schemes(app, entries[4].verb);
  entries[5].run = declare_train(app, entries[5].verb);
  entries[6].run = declare_eval(app, entries[6].verb);
  entries[7].run = declare_tokenizer_train(*tokenizer, entries[7].verb);
  entries[8].run = declare_tokenizer_encode(*tokenizer, entries[8].verb);
  entries[9].run = declare_tokenizer_decode(*tokenizer, entries[9].verb);
  entries[10].run = declare_export(app, entries[10].verb);
  entries[11].run = declare_import(app, entries[11].verb);

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
