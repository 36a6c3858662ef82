#include "norma/checks/registry.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/checks/cases/cases.h"

namespace norma::checks {

const std::vector<OpCheck>& registry() {
  static const std::vector<OpCheck> kList = {
      linear_check(),
      attention_check(),
      cross_entropy_check(),
      rms_norm_check(),
  };
  return kList;
}

const OpCheck& find_check(const std::string& op) {
  std::vector<std::string> names;
  for (const OpCheck& check : registry()) {
    if (check.op == op) return check;
    names.push_back(check.op);
  }
  const std::string near = nearest_word(op, names);
  throw RequestError(say("check: there is no op ", op, ".",
                         near.empty() ? "" : say(" Did you mean ", near, "?")));
}

}  // namespace norma::checks
