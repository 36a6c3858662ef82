// Kernels of embedding; the formula and the contract are in norma/ops/embedding.h. The gradient of
// the positions is PositionSum in norma/kernels/tokens.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct EmbeddingForward {
  Rows<const std::int32_t> ids;  // (sequences, tokens), all inside the vocabulary
  const T* table;                // (vocabulary, y.cols)
  const T* positions;            // (at least first_position + tokens, y.cols), or null
  Rows<T> y;                     // (sequences · tokens, width)
  Index first_position;
  double scale;
};
template <class T>
void run(Ref, const EmbeddingForward<T>& a);
void run(Cpu, const EmbeddingForward<float>& a);
template <class T>
void run(Cuda, const EmbeddingForward<T>& a);

template <class T>
struct EmbeddingBackward {
  Rows<const std::int32_t> ids;
  Rows<const T> dy;
  Wide<T>* dtable;  // (vocabulary, dy.cols)
  Into dtable_into;
  Index vocabulary;
  std::int32_t* ends;   // scratch (vocabulary)
  std::int32_t* order;  // scratch (sequences · tokens)
  double scale;
};
template <class T>
void run(Ref, const EmbeddingBackward<T>& a);
void run(Cpu, const EmbeddingBackward<float>& a);
template <class T>
void run(Cuda, const EmbeddingBackward<T>& a);

}  // namespace norma::kernels
