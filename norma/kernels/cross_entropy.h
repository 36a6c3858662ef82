// Kernels of cross_entropy; the formulas and the contract are in norma/ops/cross_entropy.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// What the sum over tokens is divided by.
struct LossTokens {
  const std::int32_t* targets;  // (rows), below 0: ignored; null: every row counts
  Index rows;
  double given;    // 0: the rows that count
  double* tokens;  // (1)
};
void run(Ref, const LossTokens& a);
void run(Cuda, const LossTokens& a);

/// Forward, and the gradients per unit of loss in the same pass over each row.
template <class T>
struct CrossEntropyLoss {
  Rows<const T> u;              // (N, V)
  const std::int32_t* targets;  // (N), −1: ignored; null: soft targets. On the GPU any other id
                                // outside [0, V) makes the loss and the row of du NaN
  Rows<const T> soft;           // (N, V); data null: hard targets
  const Wide<T>* scale;         // (V) as stored, or null
  Rows<T> du;                   // data null: no gradients; may be the memory of u
  Wide<T>* dscale;              // (V) of the stored scale, set; null: not wanted
  Wide<T>* partials;            // (RowChunks(N).count, V) when dscale is wanted
  double* factors;              // (2, V) scratch when there is a scale
  double* losses;               // (N), not divided, 0 where ignored
  std::int32_t* right;          // (N), 1 where a hard target ranks first; null: not wanted
  double scale_mult;
  double smoothing;
  double softcap;  // 0: none
  double z_loss;
  const double* tokens;  // (1), what the sum is divided by
  double precondition;   // 0: du is the gradient
};
template <class T>
void run(Ref, const CrossEntropyLoss<T>& a);
void run(Cpu, const CrossEntropyLoss<float>& a);
template <class T>
void run(Cuda, const CrossEntropyLoss<T>& a);

/// loss = Σ losses / tokens, in double: the loss of a million tokens keeps its digits. In token
/// order, on the GPU in one fixed by the number of tokens.
template <class T>
struct LossSum {
  const double* losses;  // (rows)
  Index rows;
  const double* tokens;   // (1)
  Wide<T>* token_losses;  // (rows)
  Wide<T>* loss;          // (1)
};
template <class T>
void run(Ref, const LossSum<T>& a);
template <class T>
void run(Cuda, const LossSum<T>& a);

}  // namespace norma::kernels
