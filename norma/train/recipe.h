// A recipe: everything that decides a run. [model] [scheme] [optim] [schedule] [data] [train].
#pragma once

#include <string>
#include <vector>

#include "norma/base/settings.h"
#include "norma/data/data_spec.h"
#include "norma/models/model_spec.h"
#include "norma/nn/param_store.h"
#include "norma/nn/scheme.h"
#include "norma/optim/optim_spec.h"
#include "norma/optim/schedule.h"

namespace norma {

enum class Precision : std::uint8_t { f32, f64, bf16, bf16_storage };
template <>
struct Words<Precision> {
  static constexpr std::array<std::pair<std::string_view, Precision>, 4> kAll{{
      {"f32", Precision::f32},
      {"f64", Precision::f64},
      {"bf16", Precision::bf16},
      {"bf16_storage", Precision::bf16_storage},
  }};
};
template <>
struct Words<DeviceKind> {
  static constexpr std::array<std::pair<std::string_view, DeviceKind>, 2> kAll{{
      {"cpu", DeviceKind::cpu},
      {"cuda", DeviceKind::cuda},
  }};
};

enum class Recompute : std::uint8_t { automatic, nothing, activations, cheap, blocks };
template <>
struct Words<Recompute> {
  static constexpr std::array<std::pair<std::string_view, Recompute>, 5> kAll{
      {{"auto", Recompute::automatic},
       {"none", Recompute::nothing},
       {"activations", Recompute::activations},
       {"cheap", Recompute::cheap},
       {"blocks", Recompute::blocks}}};
};

struct TrainSpec {
  Index steps = 1000;
  Index batch = 16;
  Index micro_batch = 0;
  Index seed = 1;
  std::string init_from;
  Index eval_every = 0;
  Index eval_tokens = 0;
  Index log_every = 10;
  Index angle_every = 0;
  Index checkpoint_every = 0;
  Index keep_last = 2;
  Index keep_every = 0;
  Index sample_every = 0;
  Index sample_tokens = 100;
  std::string sample_prompt;
  Index samples = 1;
  DeviceKind device = DeviceKind::cpu;
  Precision precision = Precision::f32;
  Index threads = 0;
  Recompute recompute = Recompute::automatic;
  double label_smoothing = 0;
  double z_loss = 0;
  double precondition = 0;

  /// Sequences that are computed at a time.
  Index rows_at_once() const { return micro_batch == 0 ? batch : micro_batch; }
  template <class F>
  void fields(F&& f) {
    f("steps", steps, "optimizer steps", Range{1, 1e9});
    f("batch", batch, "sequences a step", Range{1, 1 << 20});
    f("micro_batch",
      micro_batch,
      "sequences computed at a time; 0: the whole batch",
      Range{0, 1 << 20});
    f("seed", seed, "of the start, the data order and dropout", Range{0, 1e15});
    f("init_from", init_from, "a run whose weights this one starts from; empty: drawn by seed");
    f("eval_every", eval_every, "steps between evaluations; 0: only at the end", Range{0, 1e9});
    f("eval_tokens",
      eval_tokens,
      "tokens of an evaluation; 0: the whole validation split",
      Range{0, 1e12});
    f("log_every", log_every, "steps between lines of metrics", Range{1, 1e9});
    f("angle_every", angle_every, "steps between measurements of angles; 0: none", Range{0, 1e9});
    f("checkpoint_every",
      checkpoint_every,
      "steps between checkpoints; 0: only at the end",
      Range{0, 1e9});
    f("keep_last", keep_last, "checkpoints kept", Range{2, 1e6});
    f("keep_every",
      keep_every,
      "and those whose step is a multiple of this; 0: none",
      Range{0, 1e9});
    f("sample_every", sample_every, "steps between samples of text; 0: none", Range{0, 1e9});
    f("sample_tokens", sample_tokens, "tokens of a sample", Range{1, 1e6});
    f("sample_prompt", sample_prompt, "what samples go on from; empty: the start of a text");
    f("samples", samples, "how many at a time", Range{1, 64});
    f("device", device, "where to compute: the processor, or a GPU");
    f("precision",
      precision,
      "of activations and weights; bf16 keeps f32 masters, bf16_storage rounds every matrix after "
      "every step, and both need device cuda");
    f("threads", threads, "0: all cores", Range{0, 4096});
    f("recompute",
      recompute,
      "what backward computes again instead of keeping it: nothing, activations, all that is cheap "
      "to make (norms as well), whole blocks; auto: activations on a GPU");
    f("label_smoothing",
      label_smoothing,
      "share of each target spread over all classes",
      Range{0, 0.99});
    f("z_loss", z_loss, "factor of log² of the softmax's sum", Range{0, 1});
    f("precondition", precondition, "q of logit gradient preconditioning; 0: none", Range{0, 4});
  }
};

struct Recipe {
  ModelSpec model;
  Scheme scheme;
  OptimSpec optim;
  ScheduleSpec schedule;
  DataSpec data;
  TrainSpec train;
  /// Every value with where it came from: what recipe.toml of a run says.
  Settings resolved;
  std::vector<std::string> warnings;

  Device device() const { return {train.device}; }
  /// The type that the model computes in: of the run, or on a device that the run did not use,
  /// where f32 stands for what that one lacks.
  DType dtype() const { return dtype_on(device()); }
  DType dtype_on(Device device) const;
  Masters masters() const;
};

/// Defaults < what the scheme asks for < the file < key=value. Throws RequestError for anything
/// that is unknown, out of range or cannot work together.
Recipe load_recipe(const std::string& path, const std::vector<std::string>& assignments);
Recipe read_recipe(const Settings& given);

/// The resolved settings less those that this optimizer lacks; read_recipe takes them back.
Settings used_settings(const Recipe& recipe);

/// These settings as TOML, each line with its origin.
std::string recipe_text(const Recipe& recipe);

}  // namespace norma
