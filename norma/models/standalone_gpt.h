// A GPT with its own parameters, for whoever does not train: no gradients are asked for, no
// optimizer, no data.
#pragma once

#include "norma/models/gpt.h"

namespace norma {

struct StandaloneGpt {
  StandaloneGpt(const ModelSpec& spec, const Scheme& scheme, DType dtype, Device device = {})
      : model(spec, scheme, params) {
    params.allocate(dtype, device);
    model.allocate(dtype, device);
  }
  StandaloneGpt(const StandaloneGpt&) = delete;
  StandaloneGpt& operator=(const StandaloneGpt&) = delete;

  ParamStore params;  // all zero until something is loaded
  Gpt model;
};

}  // namespace norma
