#include "norma/ops/patchify.h"

#include "norma/kernels/patchify.h"
#include "norma/ops/dispatch.h"

namespace norma {

Var patchify(Var images, PatchifySpec spec) {
  constexpr std::string_view kOp = "patchify";
  require_float(kOp, "images", images);
  const Shape shape = images.shape();
  if (shape.rank() != 4) {
    throw ShapeError(kOp, "images", "(B, channels, height, width)", shape.text());
  }
  require_divides(kOp, "patch", spec.patch, "the height", shape[2]);
  require_divides(kOp, "patch", spec.patch, "the width", shape[3]);
  const kernels::PatchGrid grid{
      .channels = shape[1], .height = shape[2], .width = shape[3], .patch = spec.patch};

  Tape& tape = images.tape();
  const Index values = grid.channels * grid.patch * grid.patch;
  const Var y = tape.output({shape[0], grid.per_image(), values}, images.dtype());
  dispatch(kOp, images.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::PatchifyForward<T>{
                     .images = rows<const T>(images), .patches = rows<T>(y), .grid = grid});
  });
  tape.record(kOp, {images}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dimages = wanted(b, images);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::PatchifyBackward<T>{.dpatches = rows<const T>(dy),
                                                .dimages = dimages.rows<T>(),
                                                .dimages_into = dimages.into,
                                                .grid = grid});
    });
  });
  return y;
}

}  // namespace norma
