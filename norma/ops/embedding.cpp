#include "norma/ops/embedding.h"

#include "norma/kernels/embedding.h"
#include "norma/kernels/tokens.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "embedding";

void require_ids(const Tensor& ids, Index vocabulary) {
  if (planning() || ids.device.kind != DeviceKind::cpu) return;
  const auto in = rows<const std::int32_t>(ids);
  for (Index r = 0; r < in.rows; ++r) {
    for (Index t = 0; t < in.cols; ++t) {
      if (in(r, t) >= 0 && in(r, t) < vocabulary) continue;
      throw RequestError(say(kOp,
                             ": ids must lie in [0, ",
                             vocabulary,
                             "), the vocabulary of the table, got ",
                             in(r, t),
                             " at sequence ",
                             r,
                             ", token ",
                             t,
                             "."));
    }
  }
}

void require_matrix(std::string_view name, Var v, std::string_view wanted_shape) {
  if (v && v.shape().rank() != 2) throw ShapeError(kOp, name, wanted_shape, v.shape().text());
}

void require_positions(Var positions, Index width, Index tokens, Index first) {
  const Index most = positions.shape()[0];
  require_shape(kOp, "positions", positions, {most, width});
  if (first < 0 || first + tokens > most) {
    throw RequestError(say(kOp,
                           ": positions must cover ",
                           first,
                           " to ",
                           first + tokens - 1,
                           ", got a table of ",
                           most,
                           "."));
  }
}

void table_gradient(Backward& b, const Tensor& ids, Var table, const Tensor& dy, double scale) {
  const WantedRows dtable = wanted(b, table);
  if (!dtable) return;
  const Index vocabulary = table.shape()[0];
  const bool gpu = dy.device.kind == DeviceKind::cuda;
  const kernels::EmbeddingSort sort{.tokens = dy.shape.rows(), .vocabulary = vocabulary};
  const Scratch integers = b.scratch({sort.integers(gpu)}, DType::i32);
  const Scratch partials =
      b.scratch({sort.partial_rows(gpu), gpu ? dy.shape.cols() : 1}, wide(dy.dtype));
  dispatch(kOp, dy, [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(
        who,
        kernels::EmbeddingBackward<T>{.ids = rows<const std::int32_t>(ids),
                                      .dy = rows<const T>(dy),
                                      .dtable = dtable.data<Wide<T>>(),
                                      .dtable_into = dtable.into,
                                      .vocabulary = vocabulary,
                                      .integers = elements<std::int32_t>(integers.tensor()),
                                      .partials = elements<Wide<T>>(partials.tensor()),
                                      .scale = scale});
  });
}

}  // namespace

Var embedding(Var ids, Var table, Var positions, EmbeddingSpec spec) {
  if (!ids) throw RequestError(say(kOp, ": ids are missing."));
  if (ids.dtype() != DType::i32) {
    throw RequestError(say(kOp, ": ids must be i32, got ", name_of(ids.dtype()), "."));
  }
  require_float(kOp, "table", table);
  require_same_type(kOp, table, "positions", positions);
  require_matrix("table", table, "(V, C)");
  require_matrix("positions", positions, "(Tmax, C)");
  const Index width = table.shape().cols();
  const Index tokens = ids.shape().cols();
  if (positions) require_positions(positions, width, tokens, spec.first_position);
  require_ids(ids.value(), table.shape()[0]);

  Tape& tape = table.tape();
  Shape shape = ids.shape();
  shape.append(width);
  const Var y = tape.output(shape, table.dtype());
  dispatch(kOp, table.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::EmbeddingForward<T>{.ids = rows<const std::int32_t>(ids),
                                              .table = elements<const T>(table),
                                              .positions = elements<const T>(positions),
                                              .y = rows<T>(y),
                                              .vocabulary = table.shape()[0],
                                              .first_position = spec.first_position,
                                              .scale = spec.scale});
  });
  tape.pin(ids);
  tape.record(kOp, {ids, table, positions}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    table_gradient(b, ids.value(), table, dy, spec.scale);
    const WantedRows dpositions = wanted(b, positions);
    if (!dpositions) return;
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::PositionSum<T>{.dy = rows<const T>(dy),
                                           .sums = dpositions.data<Wide<T>>(),
                                           .into = dpositions.into,
                                           .table_rows = positions.shape()[0],
                                           .first = spec.first_position,
                                           .tokens = tokens,
                                           .scale = spec.scale});
    });
  });
  return y;
}

}  // namespace norma
