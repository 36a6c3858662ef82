// norma check --device cuda.
#pragma once

#include <string>
#include <vector>

#include "norma/checks/run_case.h"

namespace norma::app {

/// "f32", "bf16", "both" or "" (both). Throws RequestError for another word.
std::vector<DType> device_types(const std::string& dtype);

struct DevicePlan {
  std::vector<const checks::OpCheck*> ops;
  std::vector<std::vector<checks::CaseId>> cases;  // of each op
  std::vector<DType> types;
  bool json = false;
};
/// 0 when every case passes, 1 otherwise. Throws RequestError with the reason where there is no
/// GPU.
int check_on_device(const DevicePlan& plan);

}  // namespace norma::app
