// How a branch joins the residual stream, and the norms around that place.
#pragma once

#include "norma/models/build.h"

namespace norma {

/// The residual stream, and its normalized form where an earlier op made it already.
struct Stream {
  Var x;
  Var normed;
};

class ResidualJoin {
 public:
  ResidualJoin(const Build& build, const ResidualRule& rule, const std::string& name);
  ResidualJoin(const ResidualJoin&) = delete;
  ResidualJoin& operator=(const ResidualJoin&) = delete;

  /// post(rule(x, mid(branch))), and what `next` makes of it. An addition and the norms on both
  /// sides of it are one op. `mid` is none, or one that the join takes.
  Stream apply(Tape& tape,
               Var x,
               Var branch,
               const NormLayer& mid,
               const NormLayer& post,
               const NormLayer& next,
               const NormPass& pass) const;
  /// Whether the rule is x + branch, which the product that makes the branch can do as well.
  bool adds() const { return rule_.rule == Residual::add; }
  /// post(sum), and what `next` makes of it.
  static Stream after(
      Tape& tape, Var sum, const NormLayer& post, const NormLayer& next, const NormPass& pass);
  /// Whether apply may be given this norm of the branch.
  bool takes(const NormLayer& mid) const { return adds() && mid.joins_branch(); }
  /// Whether the rule itself does what this norm of the branch would do.
  bool includes(const NormLayer& mid) const { return rule_.on_sphere() && mid.plain_l2(); }
  void allocate(DType dtype, Device device);

 private:
  Var joined(Tape& tape, Var x, Var branch) const;

  ResidualRule rule_;
  ParamStore& params_;
  double scale_;
  double alpha_mult_ = 1;
  double fixed_alpha_ = 0;
  std::size_t vector_ = kNoParam;  // alpha or lambda
  OwnedTensor fixed_;              // (1), where alpha is not learned
};

}  // namespace norma
