#include "norma/ops/tokens.h"

#include "norma/kernels/tokens.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

void require_sequences(std::string_view op, Var x) {
  require_float(op, "x", x);
  if (x.shape().rank() != 3) throw ShapeError(op, "x", "(B, T, C)", x.shape().text());
}

/// The tokens [begin, end) of every sequence, summed and multiplied by a constant.
struct Pool {
  Index begin;
  Index end;
  double factor;
};

Var pooled(std::string_view op, Var x, Pool pool) {
  Tape& tape = x.tape();
  const Index tokens = x.shape()[1];
  const Var y = tape.output({x.shape()[0], x.shape()[2]}, x.dtype());
  dispatch(op, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::PoolForward<T>{.x = rows<const T>(x),
                                         .y = rows<T>(y),
                                         .tokens = tokens,
                                         .begin = pool.begin,
                                         .end = pool.end,
                                         .factor = pool.factor});
  });
  tape.record(op, {x}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    dispatch(op, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::PoolBackward<T>{.dy = rows<const T>(dy),
                                            .dx = dx.rows<T>(),
                                            .dx_into = dx.into,
                                            .tokens = tokens,
                                            .begin = pool.begin,
                                            .end = pool.end,
                                            .factor = pool.factor});
    });
  });
  return y;
}

}  // namespace

Var prepend_token(Var x, Var token) {
  constexpr std::string_view kOp = "prepend_token";
  require_sequences(kOp, x);
  require_float(kOp, "token", token);
  require_vector_type(kOp, x, "token", token);
  const Shape shape = x.shape();
  require_shape(kOp, "token", token, {shape[2]});
  const Index tokens = shape[1];

  Tape& tape = x.tape();
  const Var y = tape.output({shape[0], tokens + 1, shape[2]}, x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::PrependForward<T>{.x = rows<const T>(x),
                                            .token = elements<const Wide<T>>(token),
                                            .y = rows<T>(y),
                                            .tokens = tokens});
  });
  tape.record(kOp, {x, token}, {y}, [=](Backward& b) {
    const Tensor dy = b.grad(y);
    const WantedRows dx = wanted(b, x);
    const WantedRows dtoken = wanted(b, token);
    dispatch(kOp, dy, [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(who,
                   kernels::PrependBackward<T>{.dy = rows<const T>(dy),
                                               .dx = dx.rows<T>(),
                                               .dx_into = dx.into,
                                               .dtoken = dtoken.data<Wide<T>>(),
                                               .dtoken_into = dtoken.into,
                                               .tokens = tokens});
    });
  });
  return y;
}

Var add_positions(Var x, Var positions) {
  constexpr std::string_view kOp = "add_positions";
  require_sequences(kOp, x);
  require_float(kOp, "positions", positions);
  require_same_type(kOp, x, "positions", positions);
  const Index tokens = x.shape()[1];
  require_shape(kOp, "positions", positions, {tokens, x.shape()[2]});

  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), x.dtype());
  dispatch(kOp, x.value(), [&](auto who, auto zero) {
    using T = decltype(zero);
    kernels::run(who,
                 kernels::AddPositions<T>{.x = rows<const T>(x),
                                          .positions = elements<const T>(positions),
                                          .y = rows<T>(y),
                                          .tokens = tokens});
  });
  tape.record(kOp, {x, positions}, {y}, [=](Backward& b) {
    if (const WantedRows dpositions = wanted(b, positions)) {
      const Tensor dy = b.grad(y);
      dispatch(kOp, dy, [&](auto who, auto zero) {
        using T = decltype(zero);
        kernels::run(who,
                     kernels::PositionSum<T>{.dy = rows<const T>(dy),
                                             .sums = dpositions.data<Wide<T>>(),
                                             .into = dpositions.into,
                                             .table_rows = tokens,
                                             .first = 0,
                                             .tokens = tokens,
                                             .scale = 1});
      });
    }
    b.pass(x, y);
  });
  return y;
}

Var mean_pool(Var x, MeanPoolSpec spec) {
  constexpr std::string_view kOp = "mean_pool";
  require_sequences(kOp, x);
  const Index tokens = x.shape()[1];
  if (spec.first < 0 || spec.first >= tokens) {
    throw RequestError(say(kOp,
                           ": first must be a token of ",
                           x.shape().text(),
                           ", 0 to ",
                           tokens - 1,
                           ", got ",
                           spec.first,
                           "."));
  }
  const auto count = static_cast<double>(tokens - spec.first);
  return pooled(kOp, x, {.begin = spec.first, .end = tokens, .factor = 1 / count});
}

Var select_token(Var x, Index index) {
  constexpr std::string_view kOp = "select_token";
  require_sequences(kOp, x);
  const Index tokens = x.shape()[1];
  const Index at = index < 0 ? tokens + index : index;
  if (at < 0 || at >= tokens) {
    throw RequestError(say(kOp,
                           ": index must be a token of ",
                           x.shape().text(),
                           ", ",
                           -tokens,
                           " to ",
                           tokens - 1,
                           ", got ",
                           index,
                           "."));
  }
  return pooled(kOp, x, {.begin = at, .end = at + 1, .factor = 1});
}

}  // namespace norma
