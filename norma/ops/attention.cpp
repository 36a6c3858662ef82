#include "norma/ops/attention.h"

#include <cmath>

#include "norma/base/threads.h"
#include "norma/kernels/attention.h"
#include "norma/ops/dispatch.h"

namespace norma {

namespace {

constexpr std::string_view kOp = "attention";

bool on_gpu(const Tensor& tensor) { return tensor.device.kind == DeviceKind::cuda; }

void check_lengths(Var lengths, Index batch, Index keys) {
  if (!lengths) return;
  if (lengths.dtype() != DType::i32) {
    throw RequestError(say(kOp, ": lengths must be i32, got ", name_of(lengths.dtype()), "."));
  }
  require_shape(kOp, "lengths", lengths, {batch});
  // The GPU's memory is not read here: a step is queued, not waited for. Who brought the lengths
  // there has seen them.
  if (on_gpu(lengths.value())) return;
  const auto* values = elements<const std::int32_t>(lengths);
  for (Index b = 0; b < batch; ++b) {
    if (values[b] < 0 || values[b] > keys) {
      throw RequestError(say(
          kOp, ": lengths must lie in [0, ", keys, "], got ", values[b], " for sequence ", b, "."));
    }
  }
}

double scale_of(const AttentionSpec& spec, Index width) {
  return spec.scale == 0 ? 1 / std::sqrt(static_cast<double>(width)) : spec.scale;
}

/// All checks of the inputs; the sizes that the kernels need.
kernels::AttentionShape shape_of(
    Var q, Var k, Var v, const AttentionSpec& spec, const AttentionExtras& extras) {
  require_float(kOp, "q", q);
  require_float(kOp, "k", k);
  require_float(kOp, "v", v);
  require_same_type(kOp, q, "k", k);
  require_same_type(kOp, q, "v", v);
  require_vector_type(kOp, q, "temperature", extras.temperature);
  require_vector_type(kOp, q, "log_scale", extras.log_scale);
  if (q.shape().rank() != 3) throw ShapeError(kOp, "q", "(B, T, heads·D)", q.shape().text());
  require_divides(kOp, "heads", spec.heads, "the width of q", q.shape()[2]);
  const Index kv_heads = spec.kv_heads == 0 ? spec.heads : spec.kv_heads;
  require_divides(kOp, "kv_heads", kv_heads, "heads", spec.heads);
  const Index batch = q.shape()[0];
  const Index width = q.shape()[2] / spec.heads;
  if (k.shape().rank() != 3 || k.shape()[0] != batch || k.shape()[2] != kv_heads * width ||
      k.shape()[1] < q.shape()[1]) {
    throw ShapeError(kOp,
                     "k",
                     say("(B, S, kv_heads·D) = (",
                         batch,
                         ", at least ",
                         q.shape()[1],
                         ", ",
                         kv_heads * width,
                         ")"),
                     k.shape().text());
  }
  require_shape(kOp, "v", v, k.shape());
  const Index keys = spec.keys == 0 ? k.shape()[1] : spec.keys;
  if (keys < q.shape()[1] || keys > k.shape()[1]) {
    throw RequestError(say(kOp,
                           ": keys must lie in [",
                           q.shape()[1],
                           ", ",
                           k.shape()[1],
                           "], from the queries to the rows of k, got ",
                           keys,
                           "."));
  }
  if (extras.temperature && !(extras.temperature.shape() == Shape{1})) {
    require_shape(kOp, "temperature", extras.temperature, {spec.heads});
  }
  require_shape(kOp, "log_scale", extras.log_scale, {spec.heads});
  if (extras.log_scale && !spec.log_length) {
    throw RequestError(say(kOp, ": log_scale needs log_length."));
  }
  if (!(spec.softcap >= 0)) {
    throw RequestError(say(kOp, ": softcap must be 0 (none) or positive, got ", spec.softcap, "."));
  }
  check_lengths(extras.lengths, batch, keys);
  return {.batch = batch,
          .queries = q.shape()[1],
          .keys = keys,
          .key_rows = k.shape()[1],
          .heads = spec.heads,
          .kv_heads = kv_heads,
          .head_width = width,
          .causal = spec.mask == Mask::causal,
          .log_length = spec.log_length,
          .softcap = spec.softcap,
          .lengths = elements<const std::int32_t>(extras.lengths),
          .uniform_factor = extras.temperature || extras.log_scale ? 0 : scale_of(spec, width)};
}

template <class T>
kernels::HeadFactorForward<T> head_factor(const AttentionSpec& spec,
                                          const AttentionExtras& extras,
                                          Index width,
                                          const Tensor& factor) {
  return {.heads = spec.heads,
          .scale = scale_of(spec, width),
          .exponential = spec.temperature_kind == Temperature::exponential,
          .temperature = elements<const Wide<T>>(extras.temperature),
          .temperatures = extras.temperature ? extras.temperature.shape()[0] : 0,
          .log_scale = elements<const Wide<T>>(extras.log_scale),
          .factor = elements<Wide<T>>(factor)};
}

}  // namespace

Index widest_gpu_head() { return kernels::kWidestGpuHead; }

Var attention(Var q, Var k, Var v, AttentionSpec spec, AttentionExtras extras) {
  const kernels::AttentionShape shape = shape_of(q, k, v, spec, extras);
  Tape& tape = q.tape();
  const Var o = tape.output(q.shape(), q.dtype());
  const Tensor lse = tape.saved({shape.batch, shape.heads, shape.queries}, wide(q.dtype()));
  const Tensor factor = tape.saved({shape.heads}, wide(q.dtype()));
  {
    const Scratch scratch = tape.scratch(
        on_gpu(q.value()) ? Shape{1} : Shape{thread_count(), kernels::forward_scratch(shape)},
        wide(q.dtype()));
    dispatch(kOp, q.value(), [&](auto who, auto zero) {
      using T = decltype(zero);
      kernels::run(kernels::few(who), head_factor<T>(spec, extras, shape.head_width, factor));
      kernels::run(who,
                   kernels::AttentionForward<T>{.shape = shape,
                                                .q = rows<const T>(q),
                                                .k = rows<const T>(k),
                                                .v = rows<const T>(v),
                                                .head_factor = elements<const Wide<T>>(factor),
                                                .o = rows<T>(o),
                                                .lse = elements<Wide<T>>(lse),
                                                .scratch = elements<Wide<T>>(scratch.tensor())});
    });
  }
  for (const Var read : {q, k, v, o, extras.temperature, extras.log_scale}) tape.pin(read);
  tape.record(kOp, {q, k, v, extras.temperature, extras.log_scale}, {o}, [=](Backward& b) {
    const Tensor dout = b.grad(o);
    const WantedRows dq = wanted(b, q);
    const WantedRows dk = wanted(b, k);
    const WantedRows dv = wanted(b, v);
    const WantedRows dtemperature = wanted(b, extras.temperature);
    const WantedRows dlog_scale = wanted(b, extras.log_scale);
    const bool factor_wanted = dtemperature || dlog_scale;
    const auto is_set = [](const WantedRows& wanted) { return wanted && wanted.into == Into::set; };
    const bool joint = on_gpu(dout) && dout.dtype == DType::bf16 && is_set(dq) && is_set(dk) &&
                       is_set(dv) && !factor_wanted && kernels::fits_joint_gradient(shape);
    const Scratch dfactor = b.scratch({shape.batch, shape.heads}, wide(dout.dtype));
    const Scratch scratch =
        b.scratch(on_gpu(dout) ? Shape{kernels::scratch_on_gpu(shape, joint).all}
                               : Shape{thread_count(), kernels::backward_scratch(shape)},
                  wide(dout.dtype));
    dispatch(kOp, dout, [&](auto who, auto zero) {
      using T = decltype(zero);
      Wide<T>* dfactors = elements<Wide<T>>(dfactor.tensor());
      kernels::run(who,
                   kernels::AttentionBackward<T>{.shape = shape,
                                                 .q = rows<const T>(q),
                                                 .k = rows<const T>(k),
                                                 .v = rows<const T>(v),
                                                 .head_factor = elements<const Wide<T>>(factor),
                                                 .o = rows<const T>(o),
                                                 .lse = elements<const Wide<T>>(lse),
                                                 .dout = rows<const T>(dout),
                                                 .dq = dq.rows<T>(),
                                                 .dq_into = dq.into,
                                                 .dk = dk.rows<T>(),
                                                 .dk_into = dk.into,
                                                 .dv = dv.rows<T>(),
                                                 .dv_into = dv.into,
                                                 .dhead_factor = factor_wanted ? dfactors : nullptr,
                                                 .scratch = elements<Wide<T>>(scratch.tensor()),
                                                 .joint = joint});
      if (!factor_wanted) return;
      kernels::run(kernels::few(who),
                   kernels::HeadFactorBackward<T>{
                       .forward = head_factor<T>(spec, extras, shape.head_width, factor),
                       .batch = shape.batch,
                       .dfactor = dfactors,
                       .dtemperature = dtemperature.data<Wide<T>>(),
                       .dtemperature_into = dtemperature.into,
                       .dlog_scale = dlog_scale.data<Wide<T>>(),
                       .dlog_scale_into = dlog_scale.into});
    });
  });
  return o;
}

}  // namespace norma
