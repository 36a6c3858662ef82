// One case of one op on the GPU.
#pragma once

#include "norma/checks/run_case.h"

namespace norma::checks {

/// f32 or bf16 on the GPU against f64 on the CPU fed with the same rounded inputs: forward and
/// gradients, of contiguous and of strided rows, and against the composed definition; inputs
/// untouched; a second run with the same bits; backward twice. Kernels take other paths for strided
/// rows, so these are judged by their errors and not by their bits.
CaseResult run_device_case(const OpCheck& check, const CaseId& id, DType dtype);

/// repro() with the device and the type.
std::string device_repro(const OpCheck& check, const CaseId& id, DType dtype);

}  // namespace norma::checks
