// Tokens sorted by id, in token order within an id: a radix sort from the lowest digit up. Every
// pass counts the digits of its tiles, adds the counts up and moves the tokens, all in a fixed
// order, so the result depends on the ids alone.
#pragma once

#include "norma/kernels/cuda/pack.cuh"
#include "norma/kernels/embedding.h"

namespace norma::kernels {

/// The sorted ids and, beside them, the tokens they belong to.
struct SortedIds {
  const std::int32_t* ids;
  const std::int32_t* tokens;
};

/// `integers` is the scratch of EmbeddingSort. Ids outside the vocabulary come last, as the number
/// `vocabulary`.
SortedIds sort_ids(const Rows<const std::int32_t>& ids,
                   const EmbeddingSort& sort,
                   std::int32_t* integers);

}  // namespace norma::kernels
