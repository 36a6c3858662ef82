// The settings of an optimizer. One struct serves all of them; what an optimizer does not use is
// refused when it is set.
//
// A number that is NaN is not set: the optimizer's own default (docs/optimizers.md) is taken. A
// word or a flag counts as set where it differs from the default written here.
#pragma once

#include <limits>
#include <string_view>

#include "norma/base/fields.h"
#include "norma/base/types.h"

namespace norma {

enum class OptimName : std::uint8_t {
  sgdw,
  sgd,
  adamw,
  adam,
  gated_adamw,
  lion,
  adagrad,
  rmsprop,
  signsgd,
  lars,
  muon,
  riemannian_adam,
  tangent_adam
};
template <>
struct Words<OptimName> {
  static constexpr std::array<std::pair<std::string_view, OptimName>, 13> kAll{{
      {"sgdw", OptimName::sgdw},
      {"sgd", OptimName::sgd},
      {"adamw", OptimName::adamw},
      {"adam", OptimName::adam},
      {"gated_adamw", OptimName::gated_adamw},
      {"lion", OptimName::lion},
      {"adagrad", OptimName::adagrad},
      {"rmsprop", OptimName::rmsprop},
      {"signsgd", OptimName::signsgd},
      {"lars", OptimName::lars},
      {"muon", OptimName::muon},
      {"riemannian_adam", OptimName::riemannian_adam},
      {"tangent_adam", OptimName::tangent_adam},
  }};
};

enum class MuonScale : std::uint8_t {
  original,         // √max(1, rows/cols)
  match_adamw_rms,  // 0.2·√max(rows, cols)
  rms_to_rms        // √(rows/cols)
};
template <>
struct Words<MuonScale> {
  static constexpr std::array<std::pair<std::string_view, MuonScale>, 3> kAll{{
      {"original", MuonScale::original},
      {"match_adamw_rms", MuonScale::match_adamw_rms},
      {"rms_to_rms", MuonScale::rms_to_rms},
  }};
};

enum class MuonCoefficients : std::uint8_t { ns5, quintic, polar_express };
template <>
struct Words<MuonCoefficients> {
  static constexpr std::array<std::pair<std::string_view, MuonCoefficients>, 3> kAll{{
      {"ns5", MuonCoefficients::ns5},
      {"quintic", MuonCoefficients::quintic},
      {"polar_express", MuonCoefficients::polar_express},
  }};
};

enum class MuonNorm : std::uint8_t { none, normuon };
template <>
struct Words<MuonNorm> {
  static constexpr std::array<std::pair<std::string_view, MuonNorm>, 2> kAll{{
      {"none", MuonNorm::none},
      {"normuon", MuonNorm::normuon},
  }};
};

enum class Transport : std::uint8_t { projection, parallel };
template <>
struct Words<Transport> {
  static constexpr std::array<std::pair<std::string_view, Transport>, 2> kAll{{
      {"projection", Transport::projection},
      {"parallel", Transport::parallel},
  }};
};

enum class Retraction : std::uint8_t { normalize, exponential };
template <>
struct Words<Retraction> {
  static constexpr std::array<std::pair<std::string_view, Retraction>, 2> kAll{{
      {"normalize", Retraction::normalize},
      {"exponential", Retraction::exponential},
  }};
};

enum class ClipMode : std::uint8_t { global, per_tensor, agc };
template <>
struct Words<ClipMode> {
  static constexpr std::array<std::pair<std::string_view, ClipMode>, 3> kAll{{
      {"global", ClipMode::global},
      {"per_tensor", ClipMode::per_tensor},
      {"agc", ClipMode::agc},
  }};
};

inline constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

struct OptimSpec {
  OptimName name = OptimName::adamw;
  double lr = kUnset;
  double weight_decay = kUnset;
  double beta1 = kUnset;
  double beta2 = kUnset;
  double momentum = kUnset;
  double damping = kUnset;
  double eps = kUnset;
  bool nesterov = false;
  bool caution = false;
  bool corrected_decay = false;
  double lr_decay = kUnset;
  double trust = kUnset;
  double gate = kUnset;
  double eps_gate = kUnset;
  bool hyperball = false;
  Transport transport = Transport::projection;
  Retraction retraction = Retraction::normalize;
  MuonScale muon_scale = MuonScale::original;
  MuonCoefficients muon_coefficients = MuonCoefficients::ns5;
  Index muon_steps = 5;
  bool muon_nesterov = true;
  MuonNorm muon_norm = MuonNorm::none;
  double muon_norm_beta2 = kUnset;
  bool muon_cautious_decay = false;
  double muon_adam_lr = kUnset;
  double muon_adam_beta1 = kUnset;
  double muon_adam_beta2 = kUnset;
  double muon_adam_eps = kUnset;
  bool lazy_rows = false;
  double angular_cap = kUnset;
  double lr_embedding = 1;
  double lr_hidden = 1;
  double lr_head = 1;
  double lr_scale = 1;
  double lr_gain = 1;
  ClipMode clip = ClipMode::global;
  double clip_bound = kUnset;

  template <class F>
  void fields(F&& f) {
    constexpr Range kNotNegative{0, 1e6};
    constexpr Range kFraction{0, 1};
    constexpr Range kBelowOne{0, 0.9999999};
    constexpr Range kEps{1e-30, 1};
    f("name", name, "which optimizer");
    f("lr", lr, "peak learning rate", kNotNegative);
    f("weight_decay", weight_decay, "decay of the parameters tagged for it", kNotNegative);
    f("beta1", beta1, "share of the former first moment", kBelowOne);
    f("beta2", beta2, "share of the former second moment (lion: of the momentum)", kBelowOne);
    f("momentum", momentum, "share of the former momentum", kBelowOne);
    f("damping", damping, "share of the gradient that momentum does not take", kFraction);
    f("eps", eps, "added to the divisor", kEps);
    f("nesterov", nesterov, "step along g + momentum·b instead of b");
    f("caution", caution, "step only where momentum and gradient agree in sign");
    f("corrected_decay", corrected_decay, "decay by lr²/lr_peak instead of lr");
    f("lr_decay", lr_decay, "adagrad: lr / (1 + (t-1)·lr_decay)", kNotNegative);
    f("trust", trust, "lars: trust coefficient", kNotNegative);
    f("gate", gate, "gated_adamw: power a of the gate", kNotNegative);
    f("eps_gate", eps_gate, "gated_adamw: where the gate is half open", kEps);
    f("hyperball", hyperball, "adamw, muon: hidden matrices keep their Frobenius norm");
    f("transport", transport, "riemannian_adam: how momentum follows a vector");
    f("retraction", retraction, "riemannian_adam: how a vector stays on its sphere");
    f("muon_scale", muon_scale, "factor of an orthogonalized matrix");
    f("muon_coefficients", muon_coefficients, "polynomials of the Newton-Schulz iteration");
    f("muon_steps", muon_steps, "iterations", Range{1, 16});
    f("muon_nesterov", muon_nesterov, "orthogonalize (1-momentum)·g + momentum·m instead of m");
    f("muon_norm", muon_norm, "normuon: one second moment per row or column");
    f("muon_norm_beta2", muon_norm_beta2, "share of that moment kept", kBelowOne);
    f("muon_cautious_decay", muon_cautious_decay, "decay only where the step does not oppose it");
    f("muon_adam_lr", muon_adam_lr, "learning rate of what is not a hidden matrix", kNotNegative);
    f("muon_adam_beta1", muon_adam_beta1, "its first beta", kBelowOne);
    f("muon_adam_beta2", muon_adam_beta2, "its second beta", kBelowOne);
    f("muon_adam_eps", muon_adam_eps, "its eps", kEps);
    f("lazy_rows", lazy_rows, "rows of embedding and head without gradient rest");
    f("angular_cap",
      angular_cap,
      "most radians a unit vector turns in a step; 0: any",
      Range{0, 3});
    f("lr_embedding", lr_embedding, "factor for embeddings, positions, class token", kNotNegative);
    f("lr_hidden",
      lr_hidden,
      "factor for matrices in blocks and the patch projection",
      kNotNegative);
    f("lr_head", lr_head, "factor for the output table", kNotNegative);
    f("lr_scale", lr_scale, "factor for scale vectors and magnitudes", kNotNegative);
    f("lr_gain", lr_gain, "factor for gains and biases", kNotNegative);
    f("clip", clip, "what the gradient is clipped by");
    f("clip_bound",
      clip_bound,
      "largest norm (agc: relative to the weight's); 0: no clipping",
      kNotNegative);
  }
};

/// The same with every number that the named optimizer uses filled in. Throws RequestError for a
/// value out of its range and for an option that this optimizer does not use.
OptimSpec resolved(const OptimSpec& spec);

}  // namespace norma
