// The last product of a classifier with the loss worked out on its tiles (ops/head_loss.h). Cuda in
// bf16 on Hopper alone (run_fused).
//
// The gradient of a token's logits is a multiple of their odds against a number that is known
// before they are, its share. So the odds are stored in the place of logits, nothing passes over
// them again, and the shares go to the products of the gradients:
//   odds(i, v) = exp(z(i, v) - c(i)), but at the target what makes  dz(i, ·) = share(i)·odds(i, ·)
//   dx(i)      = share(i)·(odds·W)(i)          dW = oddsᵀ·(share·x)
// c(i) is the target's logit and a little more, from a product of one row by one column: the odds
// of all classes together are then the token's perplexity, times a constant, and overflow for none
// that a model learns from. Where they would, the tiles of those rows are made again, against the
// largest logit.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

template <class T>
struct HeadOdds {
  Rows<const T> x;              // (N, I)
  const T* weight;              // (V, I)
  const std::int32_t* targets;  // (N), -1: ignored; any other outside [0, V) makes all of it NaN
  Rows<T> odds;                 // (N, V)
  Rows<T> shared_x;             // (N, I)
  Wide<T>* shares;              // (N)
  double* losses;               // (N), not divided, 0 where ignored
  Wide<T>* scratch;             // (head_odds_scratch(N, V))
  double z_loss;
  const double* tokens;  // (1), what the sum of the losses is divided by
};
template <class T>
bool run(Cuda, const HeadOdds<T>& a);

/// Whether the kernel takes these: in packs of 16 bytes.
inline bool odds_fit(Rows<const Bf16> x, const Bf16* weight, Index classes) {
  constexpr std::uintptr_t kBytes = 16;
  constexpr Index kNumbers = kBytes / sizeof(Bf16);
  const auto packed = [](const Bf16* p) {
    return reinterpret_cast<std::uintptr_t>(p) % kBytes == 0;
  };
  return x.cols % kNumbers == 0 && x.stride % kNumbers == 0 && classes % kNumbers == 0 &&
         packed(x.data) && packed(weight);
}

/// What a block of two multiprocessors has of the odds at a time, rows and columns.
inline constexpr Index kOddsTile = 256;
constexpr Index odds_tiles(Index count) { return (count + kOddsTile - 1) / kOddsTile; }
/// For each row its c, its target's logit and its largest; for each tile of columns the sum of its
/// odds; for each tile of rows whether it is made again.
constexpr Index head_odds_scratch(Index rows, Index classes) {
  return rows * (3 + odds_tiles(classes)) + odds_tiles(rows);
}

}  // namespace norma::kernels
