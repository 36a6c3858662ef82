// One function per op page that describes its checks; registry.cpp lists them.
#pragma once

#include "norma/checks/problem.h"
#include "norma/kernels/activation_kind.h"

namespace norma::checks {

OpCheck activation_check(Activation kind);
OpCheck add_norm_check();
OpCheck add_positions_check();
OpCheck alerp_check();
OpCheck attention_check();
OpCheck batch_norm_check();
OpCheck column_gain_check();
OpCheck cross_entropy_check();
OpCheck derf_check();
OpCheck drop_path_check();
OpCheck dropout_check();
OpCheck dyt_check();
OpCheck embedding_check();
OpCheck geglu_check();
OpCheck head_loss_check();
OpCheck l2_norm_check();
OpCheck layer_norm_check();
OpCheck lerp_check();
OpCheck linear_check();
OpCheck mean_pool_check();
OpCheck mlp_check();
OpCheck gated_mlp_check();
OpCheck multiply_check();
OpCheck norm_add_check();
OpCheck norm_add_norm_check();
OpCheck patchify_check();
OpCheck prepend_token_check();
OpCheck qk_rope_check();
OpCheck reshape_check();
OpCheck residual_add_check();
OpCheck residual_rscale_check();
OpCheck riem_check();
OpCheck rms_norm_check();
OpCheck rope_check();
OpCheck scale_norm_check();
OpCheck select_token_check();
OpCheck slerp_check();
OpCheck softcap_check();
OpCheck split_columns_check();
OpCheck swiglu_check();
OpCheck weight_norm_check();

}  // namespace norma::checks
