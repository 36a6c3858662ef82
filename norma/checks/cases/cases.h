// One function per op page that describes its checks; registry.cpp lists them.
#pragma once

#include "norma/checks/problem.h"

namespace norma::checks {

OpCheck attention_check();
OpCheck cross_entropy_check();
OpCheck linear_check();
OpCheck rms_norm_check();

}  // namespace norma::checks
