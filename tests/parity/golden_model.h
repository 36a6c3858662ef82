// A model built as a golden's settings say, with the golden's parameters.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "norma/models/gpt.h"
#include "tests/support/golden.h"

namespace norma {

/// The scheme a golden is about; names that start with x- are schemes with one thing changed.
Scheme golden_scheme(const std::string& name);
ModelSpec golden_model_spec(const Golden& golden);

struct GoldenModel {
  GoldenModel(const Golden& golden, DType dtype);
  ParamStore params;
  std::unique_ptr<Gpt> model;
};

/// Largest |got − want| / max(|want|_max, floor).
double relative_error(const std::vector<double>& got,
                      const std::vector<double>& want,
                      double floor);
std::vector<double> values_of(const Tensor& tensor);

/// "schemes/ngpt", … of several folders.
std::vector<std::string> goldens_in(std::initializer_list<const char*> folders);

}  // namespace norma
