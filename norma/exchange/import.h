// Models of other programs, as recipes and weights of ours (docs/formats/exchange.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "norma/base/settings.h"
#include "norma/exchange/foreign_tensors.h"
#include "norma/exchange/name_maps.h"

namespace norma::exchange {

class Import {
 public:
  /// Reads headers and config.json, no weights. `map_word` is hf, nanogpt, ngpt, norma, or auto:
  /// then the files decide. `said` are settings from the command line; they win over the files, and
  /// name what files do not say (the number of heads of a nanoGPT).
  Import(io::FileSystem& disk,
         const std::string& from,
         const std::string& map_word,
         const Settings& said);

  NameMap map() const { return map_; }
  /// The recipe's settings: what the files say, then `said`.
  const Settings& settings() const { return settings_; }
  Index step() const { return step_; }  // 0 where the files do not say
  const std::vector<std::string>& notes() const { return notes_; }

  /// Refuses files that do not hold exactly the model; the model may be planned (planning.h), so
  /// this comes before memory is taken.
  void require(Gpt& model) const;
  /// After require().
  void load(Gpt& model) const;

 private:
  void choose_map(const std::string& map_word, const std::optional<std::string>& config);
  void read_hf(const std::string& config_path, const std::string& config);
  void read_own();
  void read_gpt_names(const std::string& config_path, const std::optional<std::string>& config);
  void settle_head();
  void set(std::string key, Settings::Value value);
  Index extent(const std::string& tensor, std::size_t axis) const;

  ForeignTensors tensors_;
  NameMap map_ = NameMap::norma;
  Settings settings_;
  Index step_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace norma::exchange
