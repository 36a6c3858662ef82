// Cuts images into patches, the tokens of a vision Transformer.
#pragma once

#include "norma/autograd/var.h"

namespace norma {

struct PatchifySpec {
  Index patch = 16;  // side of a square patch; divides height and width
};

/// y (B, patches, ch·p·p) from images (B, ch, height, width) f32|f64, rows may be strided
/// Patches go line by line from the top left. The values of a patch are ordered channel, line,
/// column: y[b, i, (k·p + r)·p + s] = image[b, k, line_i·p + r, column_i·p + s], so a linear layer
/// with weight [C, ch·p·p] equals a convolution with stride p and weight [C, ch, p, p].
/// saves  nothing      grads  dimages: every value goes back to its pixel
Var patchify(Var images, PatchifySpec spec);

}  // namespace norma
