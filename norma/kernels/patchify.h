// Kernels of patchify; the order of values and the contract are in norma/ops/patchify.h.
#pragma once

#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

/// Where the pixels of one line of one patch lie: a run of `patch` neighbours in both layouts.
struct PatchGrid {
  Index channels;
  Index height;  // of an image; a multiple of patch
  Index width;
  Index patch;

  constexpr Index per_image() const { return (height / patch) * (width / patch); }

  /// Calls f(image_row, image_col, patch_col) for every line of the patch in row `n`.
  template <class F>
  void for_each_line(Index n, F&& f) const {
    const Index across = width / patch;
    const Index image = n / per_image();
    const Index down = n % per_image() / across;
    const Index left = n % across * patch;
    for (Index channel = 0; channel < channels; ++channel) {
      for (Index line = 0; line < patch; ++line) {
        f((image * channels + channel) * height + down * patch + line,
          left,
          (channel * patch + line) * patch);
      }
    }
  }
};

template <class T>
struct PatchifyForward {
  Rows<const T> images;  // (images · channels · height, width)
  Rows<T> patches;       // (images · per_image, channels · patch · patch)
  PatchGrid grid;
};
template <class T>
void run(Ref, const PatchifyForward<T>& a);
void run(Cpu, const PatchifyForward<float>& a);
template <class T>
void run(Cuda, const PatchifyForward<T>& a);

template <class T>
struct PatchifyBackward {
  Rows<const T> dpatches;
  Rows<T> dimages;
  Into dimages_into;
  PatchGrid grid;
};
template <class T>
void run(Ref, const PatchifyBackward<T>& a);
void run(Cpu, const PatchifyBackward<float>& a);
template <class T>
void run(Cuda, const PatchifyBackward<T>& a);

}  // namespace norma::kernels
