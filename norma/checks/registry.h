// The list of all ops with their checks. An op that is not here fails a test.
#pragma once

#include <string>
#include <vector>

#include "norma/checks/problem.h"

namespace norma::checks {

const std::vector<OpCheck>& registry();
/// Throws RequestError naming the nearest op when there is none of this name.
const OpCheck& find_check(const std::string& op);

}  // namespace norma::checks
