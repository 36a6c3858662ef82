#include "norma/checks/registry.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/checks/cases/cases.h"

namespace norma::checks {

const std::vector<OpCheck>& registry() {
  static const std::vector<OpCheck> kList = {
      linear_check(),
      mlp_check(),
      gated_mlp_check(),
      attention_check(),
      cross_entropy_check(),
      head_loss_check(),
      embedding_check(),
      layer_norm_check(),
      rms_norm_check(),
      l2_norm_check(),
      scale_norm_check(),
      dyt_check(),
      derf_check(),
      batch_norm_check(),
      weight_norm_check(),
      add_norm_check(),
      norm_add_check(),
      norm_add_norm_check(),
      rope_check(),
      qk_rope_check(),
      lerp_check(),
      slerp_check(),
      riem_check(),
      residual_add_check(),
      residual_rscale_check(),
      alerp_check(),
      activation_check(Activation::gelu_erf),
      activation_check(Activation::gelu_tanh),
      activation_check(Activation::relu),
      activation_check(Activation::relu2),
      activation_check(Activation::silu),
      swiglu_check(),
      geglu_check(),
      multiply_check(),
      column_gain_check(),
      softcap_check(),
      dropout_check(),
      drop_path_check(),
      split_columns_check(),
      reshape_check(),
      patchify_check(),
      prepend_token_check(),
      add_positions_check(),
      mean_pool_check(),
      select_token_check(),
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
  throw RequestError(
      say("check: there is no op ", op, ".", near.empty() ? "" : say(" Did you mean ", near, "?")));
}

}  // namespace norma::checks
