// What the command line asks of each verb. main.cpp fills these; one file per verb answers.
#pragma once

#include <cstdint>
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
  std::string dtype = "f32";
  std::uint64_t seed = 1;
  bool json = false;
};
/// 0 when every case passes, 1 otherwise.
int run_check(const CheckRequest& request);

struct BenchKernelsRequest {
  std::string op;  // empty: all
  std::string device = "cpu";
  int threads = 0;  // 0: all cores
  bool json = false;
};
int run_bench_kernels(const BenchKernelsRequest& request);

struct BenchTrainRequest {
  std::string name;
  std::string scheme = "pre-ln";
  std::string optimizer = "adamw";
  int steps = 0;  // 0: as many as fill a few seconds
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

struct EvalRequest {
  std::string run;
  std::string split = "val";
  std::string data;  // another file
  Index tokens = 0;  // 0: all
  bool json = false;
};
int run_eval(const EvalRequest& request);

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

struct DoctorRequest {
  bool json = false;
};
int run_doctor(const DoctorRequest& request);

}  // namespace norma::app
