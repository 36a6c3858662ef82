#include "norma/optim/span.h"

namespace norma {

double lr_factor(const OptimSpec& spec, const ParamTags& tags) {
  switch (tags.kind) {
    case ParamClass::embedding:
    case ParamClass::position:
    case ParamClass::class_token:
      return spec.lr_embedding * tags.lr_scale;
    case ParamClass::query:
    case ParamClass::key:
    case ParamClass::value:
    case ParamClass::attn_out:
    case ParamClass::ffn_up:
    case ParamClass::ffn_gate:
    case ParamClass::ffn_down:
    case ParamClass::patch:
      return spec.lr_hidden * tags.lr_scale;
    case ParamClass::head:
      return spec.lr_head * tags.lr_scale;
    case ParamClass::scale:
    case ParamClass::magnitude:
      return spec.lr_scale * tags.lr_scale;
    case ParamClass::gain:
    case ParamClass::bias:
      return spec.lr_gain * tags.lr_scale;
    case ParamClass::other:
      break;
  }
  return tags.lr_scale;
}

Span span_of(const ParamStore& params, std::size_t index, const OptimSpec& spec) {
  const Param& param = params.params()[index];
  const bool table =
      param.tags.kind == ParamClass::embedding || param.tags.kind == ParamClass::head;
  return {.offset = param.offset,
          .count = param.count(),
          .rows = param.shape.rows(),
          .cols = param.shape.cols(),
          .rank = param.shape.rank(),
          .tags = param.tags,
          .lr_factor = lr_factor(spec, param.tags),
          .lazy = spec.lazy_rows && table,
          .first = index};
}

bool merge(Span& span, const Span& next) {
  const auto plain = [](const Span& s) { return s.tags.constraint == Constraint::free && !s.lazy; };
  const bool alike = plain(span) && plain(next) && span.tags.decay == next.tags.decay &&
                     span.lr_factor == next.lr_factor;
  if (!alike || next.first != span.first + span.parameters) return false;
  span.count = next.offset + next.count - span.offset;
  span.rows = 1;
  span.cols = span.count;
  span.rank = 1;
  span.parameters += next.parameters;
  return true;
}

kernels::Keep keep_of(const ParamTags& tags) {
  const bool columns = tags.axis == VectorAxis::columns;
  switch (tags.constraint) {
    case Constraint::unit:
      return columns ? kernels::Keep::unit_columns : kernels::Keep::unit_rows;
    case Constraint::row_max:
      return columns ? kernels::Keep::short_columns : kernels::Keep::short_rows;
    default:
      return kernels::Keep::nothing;
  }
}

}  // namespace norma
