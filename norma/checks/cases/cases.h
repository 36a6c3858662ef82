// One function per op page that describes its checks; registry.cpp lists them.
#pragma once

#include "norma/checks/problem.h"

namespace norma::checks {

OpCheck rms_norm_check();

}  // namespace norma::checks
