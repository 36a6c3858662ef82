// Drawing the next token from logits.
#pragma once

#include <cstdint>
#include <vector>

#include "norma/base/types.h"
#include "norma/tensor/tensor.h"

namespace norma {

struct SamplingSpec {
  double temperature = 1;  // logits are divided by it; 0: always the largest logit
  Index top_k = 0;         // only the k largest logits; 0: all
  double top_p = 1;        // of those, the smallest set that has this share of probability; 1: all
  std::uint64_t seed = 0;
};

/// Which random number decides: it depends on this and the seed alone, so that sample i is the same
/// text however many samples are drawn beside it.
struct DrawPlace {
  Index sample = 0;
  Index token = 0;  // counted from the first drawn one
};

class Sampler {
 public:
  /// Throws RequestError for a temperature, k or p that makes no sense.
  explicit Sampler(const SamplingSpec& spec);

  /// An id in [0, choices) for row `row` of logits (..., V), V ≥ choices: ids beyond are padding of
  /// the vocabulary. Equal logits rank by id, the lower first. An Error when a logit is NaN or no
  /// choice has a finite one.
  std::int32_t draw(const Tensor& logits, Index row, Index choices, DrawPlace place);

 private:
  struct Candidate {
    double logit;
    double weight;  // proportional to its probability
    std::int32_t id;
  };
  void load(const Tensor& logits, Index row, Index choices);
  void keep_top_k();
  void keep_top_p();

  SamplingSpec spec_;
  std::vector<Candidate> candidates_;
};

}  // namespace norma
