// What a run will take, found out before it starts: memory exactly, by walking through a step
// without computing; time by timing a few steps of the first blocks.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "norma/train/trainer.h"

namespace norma {

struct Forecast {
  Index parameters = 0;
  Trainer::Memory memory;
  std::size_t sampling_bytes = 0;  // of the samples that are drawn meanwhile
  std::size_t process_bytes = 0;   // of the program itself: code, threads, libraries
  bool device_bytes_known = true;  // false: for a GPU, and there is none here to ask
  double step_seconds = 0;   // 0: not even two blocks fit into this machine, or no such device
  double total_seconds = 0;  // all steps, evaluations included
  double flops_per_step = 0;
  std::size_t machine_bytes = 0;  // of the device
  bool timed_whole = false;       // the whole model was timed, not a slice of it

  std::size_t wanted() const { return memory.total() + sampling_bytes; }
  std::size_t bytes() const { return wanted() + process_bytes; }
  /// What the device has for it.
  std::size_t room() const { return machine_bytes - std::min(machine_bytes, process_bytes); }
  /// wanted(), by what wants it. Angles and samples only where there are some.
  std::vector<std::pair<std::string, std::size_t>> parts() const;
};

/// Memory and work alone: nothing is computed and no memory is used up. Throws RequestError for a
/// recipe that cannot be built.
Forecast plan_memory(const Recipe& recipe, const TokenData& data);
/// What is wanted and what there is, in a sentence, and the settings that would fit, where it does
/// not; nothing where it fits or the device is not known.
std::optional<std::string> too_large(const Recipe& recipe, const Forecast& plan);
/// `data` may be empty: then time for evaluation is left out.
Forecast forecast(const Recipe& recipe, const TokenData& data);

}  // namespace norma
