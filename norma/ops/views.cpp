#include "norma/ops/views.h"

#include "norma/ops/dispatch.h"

namespace norma {

namespace {

std::string text_of(std::span<const Index> widths) {
  std::string text;
  for (const Index width : widths) text += say(text.empty() ? "" : " + ", width);
  return text;
}

}  // namespace

void split_columns(Var x, std::span<const Index> widths, std::span<Var> parts) {
  constexpr std::string_view kOp = "split_columns";
  constexpr std::size_t kMostParts = 4;  // as many outputs as the tape lets an op have
  if (!x) throw RequestError(say(kOp, ": x is missing."));
  if (widths.empty() || widths.size() > kMostParts || widths.size() != parts.size()) {
    throw RequestError(say(kOp,
                           ": wanted 1 to ",
                           kMostParts,
                           " widths and as many parts, got ",
                           widths.size(),
                           " and ",
                           parts.size(),
                           "."));
  }
  Index sum = 0;
  for (const Index width : widths) {
    if (width < 1) throw RequestError(say(kOp, ": widths must be at least 1, got ", width, "."));
    sum += width;
  }
  if (sum != x.shape().cols()) {
    throw RequestError(say(kOp,
                           ": the widths must sum to the columns of ",
                           x.shape().text(),
                           ", got ",
                           text_of(widths),
                           " = ",
                           sum,
                           "."));
  }

  Tape& tape = x.tape();
  Index column = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    parts[i] = tape.alias(x, x.value().columns(column, widths[i]));
    column += widths[i];
  }
  tape.record_split(kOp, x, parts);
}

Var reshape(Var x, Shape shape) {
  constexpr std::string_view kOp = "reshape";
  if (!x) throw RequestError(say(kOp, ": x is missing."));
  if (shape.count() != x.shape().count()) {
    throw RequestError(say(kOp,
                           ": x must have the ",
                           shape.count(),
                           " elements of ",
                           shape.text(),
                           ", got ",
                           x.shape().text(),
                           " with ",
                           x.shape().count(),
                           "."));
  }
  if (!x.value().contiguous()) {
    throw RequestError(say(kOp,
                           ": x must be contiguous, got ",
                           x.shape().text(),
                           " with rows ",
                           x.value().row_stride,
                           " elements apart; reshape before the columns are split."));
  }
  Tape& tape = x.tape();
  const Var y = tape.alias(x, x.value().reshaped(shape));
  tape.record(kOp, {x}, {y}, [=](Backward& b) { b.pass(x, y); });
  return y;
}

}  // namespace norma
