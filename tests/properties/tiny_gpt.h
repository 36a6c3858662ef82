// A small GPT under any scheme, with random gains and scales, on a fixed random batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "norma/models/gpt.h"
#include "tests/support/values.h"

namespace norma::test {

/// A scheme from TOML as a recipe's [scheme] has it: base = "ngpt" and changes.
Scheme scheme_of(const std::string& toml);

/// The catalogue without the schemes that speak of images alone.
std::vector<std::string> text_schemes();

struct TinyGptSpec {
  DType dtype = DType::f64;
  std::string model{};    // TOML of [model]; what it leaves open is the scheme's wish, then kSizes
  bool at_start = false;  // the scheme's own start values (seed 7) instead of random ones
};

class TinyGpt {
 public:
  static constexpr Index kBatch = 3;
  static constexpr Index kTokens = 13;

  explicit TinyGpt(const std::string& scheme_toml, const TinyGptSpec& spec = {});
  TinyGpt(const TinyGpt&) = delete;
  TinyGpt& operator=(const TinyGpt&) = delete;

  Tensor value(const std::string& name) const { return params_.value(params_.find(name)); }
  Tensor grad(const std::string& name) const { return params_.grad(params_.find(name)); }
  /// Rows [first, first + count) of a matrix.
  Tensor value_rows(const std::string& name, Index first, Index count) const;
  Tensor grad_rows(const std::string& name, Index first, Index count) const;
  /// Multiplies every parameter whose name ends so, and says how many there were.
  int scale_all(const std::string& ending, double factor);

  /// (B·T, V), in training mode, but not recorded: running statistics stay as they are.
  OwnedTensor logits();
  /// The stream after each block, (B·T, d).
  std::vector<OwnedTensor> streams();
  /// The loss; gradients land in the parameters.
  double backward();
  double loss();

  ParamStore& params() { return params_; }
  const ParamStore& params() const { return params_; }
  Gpt& model() { return *model_; }
  const ModelSpec& spec() const { return model_->spec(); }

  OwnedTensor ids;      // (B, T)
  OwnedTensor targets;  // (B·T)
  OwnedTensor lengths;  // (B), or empty: no padding

 private:
  Pass pass_;
  ParamStore params_;
  std::unique_ptr<Gpt> model_;
  Tape tape_;
};

/// Gives every parameter random values that depend on its name alone: matrices of unit gain,
/// vectors around their start value, of which some have the other sign. Then constraints.
void randomize(ParamStore& params);

/// |a − b| / |b| over all elements.
double distance(const Tensor& a, const Tensor& b);
double norm(const Tensor& t);
/// ⟨a, b⟩ / (|a|·|b|).
double cosine(const Tensor& a, const Tensor& b);
/// The largest distance over all gradients except those of the named parameters; a gradient that
/// is small by cancellation is judged against the largest.
double gradient_distance(const TinyGpt& got,
                         const TinyGpt& want,
                         const std::vector<std::string>& except = {});

}  // namespace norma::test
