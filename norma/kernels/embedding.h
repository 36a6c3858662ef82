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
  Rows<const std::int32_t> ids;  // (sequences, tokens); on the GPU an id outside the vocabulary
                                 // gives a row of NaN, elsewhere there is none
  const T* table;                // (vocabulary, y.cols)
  const T* positions;            // (at least first_position + tokens, y.cols), or null
  Rows<T> y;                     // (sequences · tokens, width)
  Index vocabulary;
  Index first_position;
  double scale;
};
template <class T>
void run(Ref, const EmbeddingForward<T>& a);
void run(Cpu, const EmbeddingForward<float>& a);
template <class T>
void run(Cuda, const EmbeddingForward<T>& a);

/// Scratch of the gradient of a table: the tokens are sorted by id, in token order within an id.
struct EmbeddingSort {
  Index tokens;
  Index vocabulary;

  // On the GPU sorted tokens are summed in pieces of this many; ids that reach beyond a piece are
  // put together in a second step.
  static constexpr Index kPiece = 64;
  // What one block sorts, few enough that a batch has blocks for a whole card, and the values of
  // the digit it sorts by.
  static constexpr Index kTile = 512;
  static constexpr Index kDigits = 256;

  Index tiles() const { return (tokens + kTile - 1) / kTile; }
  Index pieces() const { return (tokens + kPiece - 1) / kPiece; }
  /// The end of every id and the order; on the GPU ids and order, twice, and counts of digits.
  Index integers(bool gpu) const {
    return gpu ? 4 * tokens + kDigits * tiles() : vocabulary + tokens;
  }
  /// Sums of what a piece shares with its neighbours, in rows of the table.
  Index partial_rows(bool gpu) const { return gpu ? 2 * pieces() : 1; }
};

template <class T>
struct EmbeddingBackward {
  Rows<const std::int32_t> ids;
  Rows<const T> dy;
  Wide<T>* dtable;  // (vocabulary, dy.cols)
  Into dtable_into;
  Index vocabulary;
  std::int32_t* integers;  // scratch of EmbeddingSort
  Wide<T>* partials;       // scratch (partial_rows, dy.cols)
  double scale;
};
template <class T>
void run(Ref, const EmbeddingBackward<T>& a);
void run(Cpu, const EmbeddingBackward<float>& a);
template <class T>
void run(Cuda, const EmbeddingBackward<T>& a);

}  // namespace norma::kernels
