// What the command line asks of each verb. main.cpp fills these; one file per verb answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "norma/base/types.h"

namespace norma::app {

struct CheckRequest {
  std::string op;         // empty: all
  std::string variant;    // empty: all
  std::string shape;      // "3x257"; empty: the sweep
  std::string condition;  // empty: all
  std::string device = "cpu";
  std::string dtype;  // empty: f32 on the CPU, both f32 and bf16 on a GPU
  std::uint64_t seed = 1;
  bool json = false;
};
/// 0 when every case passes, 1 otherwise.
int run_check(const CheckRequest& request);

struct BenchKernelsRequest {
  std::string op;  // empty: all
  std::string device = "cpu";
  double sustained = 0;  // seconds of each op on a GPU; 0: a short run
  int threads = 0;       // 0: all cores
  bool json = false;
};
int run_bench_kernels(const BenchKernelsRequest& request);

struct BenchTrainRequest {
  std::string name;
  std::vector<std::string> assignments;  // key=value
  std::string scheme;                    // empty: the case's
  std::string optimizer = "adamw";
  std::string device = "cpu";
  std::string dtype;  // empty: f32 on a CPU, bf16 on a GPU
  int steps = 0;      // 0: as many as fill a few seconds
  int threads = 0;
  bool profile = false;
  bool json = false;
};
int run_bench_train(const BenchTrainRequest& request);

struct TrainRequest {
  std::string recipe;
  std::vector<std::string> assignments;  // key=value
  std::string out;
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool print_config = false;
  bool json = false;
};
/// 0 done, 128 + signal when stopped by one.
int run_train(const TrainRequest& request);

/// What --device says of a verb that has a choice of its own; nothing where it was not given.
inline std::optional<Device> asked_device(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return Device{name == "cuda" ? DeviceKind::cuda : DeviceKind::cpu};
}

struct EvalRequest {
  std::string run;
  std::string split = "val";
  std::string data;    // another file
  Index tokens = 0;    // 0: all
  std::string device;  // empty: where it was trained
  bool json = false;
};
int run_eval(const EvalRequest& request);

struct SampleRequest {
  std::string run;
  std::string prompt;  // "-": standard input
  std::string prompt_file;
  Index samples = 1;
  Index tokens = 200;
  double temperature = 0.8;
  Index top_k = 0;   // 0: all
  double top_p = 1;  // 1: all
  std::uint64_t seed = 1;
  std::optional<Index> checkpoint;  // a step; absent: the newest
  std::string device;               // empty: where it was trained
  bool json = false;
};
/// 0 done, 128 + signal when stopped by one.
int run_sample(const SampleRequest& request);

struct SchemesRequest {
  std::string name;   // empty: the catalogue
  std::string other;  // show what differs from this one
  bool toml = false;
  bool markdown = false;
  bool json = false;
};
int run_schemes(const SchemesRequest& request);

struct TokenizerTrainRequest {
  std::vector<std::string> inputs;  // files; "-": standard input
  int vocab = 0;
  std::string out;
  bool json = false;
};
int run_tokenizer_train(const TokenizerTrainRequest& request);

struct TokenizerEncodeRequest {
  std::string tokenizer = "gpt2";
  std::string input = "-";
  std::string binary;  // "", "uint16" or "uint32"
  bool specials = false;
  int threads = 0;  // 0: all cores
};
int run_tokenizer_encode(const TokenizerEncodeRequest& request);

struct TokenizerDecodeRequest {
  std::string tokenizer = "gpt2";
  std::string input = "-";
  std::string binary;
};
int run_tokenizer_decode(const TokenizerDecodeRequest& request);

struct DataTextRequest {
  std::vector<std::string> inputs;  // files, folders; "-": standard input
  std::string tokenizer = "gpt2";
  std::string out;
  double val_fraction = 0.1;
  std::uint64_t seed = 1;
  std::optional<std::string> field;      // of JSONL; given: standard input is JSONL too
  std::optional<std::string> separator;  // a line between documents
  std::string licence;
  int threads = 0;  // 0: all cores
  bool json = false;
};
/// 0 done, 128 + signal when stopped by one.
int run_data_text(const DataTextRequest& request);

struct DataInspectRequest {
  std::string path;
  std::string tokenizer;  // empty: the one that lies in the folder
  bool json = false;
};
int run_data_inspect(const DataInspectRequest& request);

struct DataGetRequest {
  std::string set;
  std::string to;  // empty: the user's cache folder
  bool force = false;
  double timeout_s = 120.0;  // for each package
  bool json = false;
};
/// 0 done, 128 + signal when stopped by one.
int run_data_get(const DataGetRequest& request);

struct DataGenerateRequest {
  std::string out;
  std::uint64_t bytes = 4'000'000;
  std::uint64_t seed = 1;
  bool json = false;
};
int run_data_generate(const DataGenerateRequest& request);

struct ExportRequest {
  std::string run;
  std::string to = "hf";  // or safetensors
  std::string folder;
  Index checkpoint = -1;  // a step; -1: the newest
  std::string dtype = "f32";
  bool keep_padding = false;
  bool with_logits = false;
  bool force = false;
  bool json = false;
};
int run_export(const ExportRequest& request);

struct ImportRequest {
  std::string from;                      // a folder or a .safetensors file
  std::vector<std::string> assignments;  // key=value
  std::string out;
  std::string map = "auto";
  std::string tokenizer;  // empty: what lies beside the weights
  bool force = false;
  bool json = false;
};
int run_import(const ImportRequest& request);

struct DemoRequest {
  std::string out = "norma-demo";
  std::string data;    // a text; empty: the demo's own
  double minutes = 5;  // for the training of all five
  Index steps = 0;     // 0: as many as fit into the minutes
  int threads = 0;     // 0: all cores
};
/// 0 done, 128 + signal when stopped by one.
int run_demo(const DemoRequest& request);

struct DoctorRequest {
  bool json = false;
};
int run_doctor(const DoctorRequest& request);

}  // namespace norma::app
