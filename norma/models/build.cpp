#include "norma/models/build.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/ops/column_gain.h"

namespace norma {

Build::Build(const ModelSpec& model, const Scheme& chosen, ParamStore& store)
    : spec(model), scheme(chosen), params(store) {
  const auto number = [](Index value) { return static_cast<double>(value); };
  sizes = {{"d", number(model.width)},
           {"dh", number(model.head())},
           {"H", number(model.heads)},
           {"L", number(model.layers)},
           {"f", number(model.inner())},
           {"V", number(model.vocab)},
           {"T", number(model.context)}};
}

NormLayer Build::norm(const Slot& slot,
                      const std::string& name,
                      Index width,
                      const NormLayer* lender) const {
  const NormPlace place{.name = name,
                        .width = width,
                        .head = spec.head(),
                        .context = spec.context,
                        .model_bias = spec.bias,
                        .pair_tied = scheme.attention.pair_tied && slot.scope == Scope::per_head,
                        .decay = scheme.decay,
                        .sizes = sizes};
  return NormLayer(slot, place, params, lender);
}

std::size_t Build::scale(const std::string& name, Index count, double start, double logical) const {
  return params.add({name,
                     {count},
                     {.kind = ParamClass::scale,
                      .decay = scheme.decay[ParamClass::scale],
                      .logical_scale = logical},
                     start});
}

Var times(Tape& tape, Var x, double factor, const OwnedTensor& one) {
  return factor == 1 ? x : scalar_gain(x, tape.constant(one.tensor), factor);
}

}  // namespace norma
