// Every optimizer against an implementation in PyTorch that was written from the formulas alone:
// twelve steps on four small tensors, compared after each step.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "norma/base/read_fields.h"
#include "norma/base/text.h"
#include "norma/optim/optimizer.h"
#include "tests/parity/golden_model.h"
#include "tests/support/test_name.h"

namespace norma {
namespace {

// Where the tangent part of a gradient is next to nothing, Adam divides rounding by itself.
constexpr double kF64 = 1e-7;
constexpr double kF32 = 1e-5;
constexpr double kBf16Steps = 2e-3;

constexpr const char* kAdam = "beta1 = 0.9\nbeta2 = 0.95\neps = 1e-8\n";
constexpr const char* kMuon =
    "name = \"muon\"\nmomentum = 0.95\nmuon_adam_lr = 1\nmuon_adam_beta1 = 0.9\n"
    "muon_adam_beta2 = 0.95\nmuon_adam_eps = 1e-8\n";

/// Our settings for the golden of that name.
std::string settings_of(const std::string& name, Constraint& constraint) {
  constraint = Constraint::free;
  if (name == "adagrad") return "name = \"adagrad\"";
  if (name == "adagrad-decay") return "name = \"adagrad\"\nlr_decay = 0.1";
  if (name == "adam") return say("name = \"adam\"\n", kAdam);
  if (name == "adamh") return say("name = \"adamw\"\nhyperball = true\n", kAdam);
  if (name == "adamw") return say("name = \"adamw\"\n", kAdam);
  if (name == "adamw-frobenius") constraint = Constraint::frobenius;
  if (name == "adamw-rowmax") constraint = Constraint::row_max;
  if (name == "adamw-frobenius" || name == "adamw-rowmax") return say("name = \"adamw\"\n", kAdam);
  if (name == "adamw-lazy") return say("name = \"adamw\"\nlazy_rows = true\n", kAdam);
  if (name == "gated_adamw") {
    return say("name = \"gated_adamw\"\ngate = 0.5\neps_gate = 1e-3\n", kAdam);
  }
  if (name == "lars") return "name = \"lars\"\nmomentum = 0.9\ntrust = 0.1\neps = 1e-8";
  if (name == "lion") return "name = \"lion\"\nbeta1 = 0.9\nbeta2 = 0.99";
  if (name == "muon") return kMuon;
  if (name == "muon-cautious") return say(kMuon, "muon_cautious_decay = true");
  if (name == "muon-match") return say(kMuon, "muon_scale = \"match_adamw_rms\"");
  if (name == "muon-polar") return say(kMuon, "muon_coefficients = \"polar_express\"");
  if (name == "muonh") return say(kMuon, "hyperball = true");
  if (name == "normuon") return say(kMuon, "muon_norm = \"normuon\"\nmuon_norm_beta2 = 0.95");
  if (name == "rmsprop") return "name = \"rmsprop\"\nbeta2 = 0.99\neps = 1e-8\nmomentum = 0";
  if (name == "rmsprop-momentum") {
    return "name = \"rmsprop\"\nbeta2 = 0.99\neps = 1e-8\nmomentum = 0.9";
  }
  if (name == "sgd-no-decay") return "name = \"sgd\"\nmomentum = 0.9";
  if (name == "sgd-nesterov") return "name = \"sgd\"\nmomentum = 0.9\nnesterov = true";
  if (name == "sgd") return "name = \"sgd\"\nmomentum = 0.9";
  if (name == "sgdw") return "name = \"sgdw\"\nmomentum = 0.9";
  if (name == "sgdw-caution") return "name = \"sgdw\"\nmomentum = 0.9\ncaution = true";
  if (name == "sgdw-damped") return "name = \"sgdw\"\nmomentum = 0.9\ndamping = 0.2";
  if (name == "sgdw-nesterov") return "name = \"sgdw\"\nmomentum = 0.9\nnesterov = true";
  if (name == "signsgd") return "name = \"signsgd\"\nmomentum = 0";
  if (name == "signsgd-momentum") return "name = \"signsgd\"\nmomentum = 0.9";
  constraint = Constraint::unit;
  if (name == "ngpt-adam") return say("name = \"adamw\"\n", kAdam);
  if (name == "tangent_adam") return say("name = \"tangent_adam\"\n", kAdam);
  if (name == "riemannian_adam-projection") {
    return say("name = \"riemannian_adam\"\ntransport = \"projection\"\n", kAdam);
  }
  if (name == "riemannian_adam-parallel") {
    return say(
        "name = \"riemannian_adam\"\ntransport = \"parallel\"\nretraction = \"exponential\"\n",
        kAdam);
  }
  return {};
}

struct Tensors {
  const char* name;
  ParamClass kind;
  VectorAxis axis;
};
constexpr Tensors kTensors[] = {{"w1", ParamClass::query, VectorAxis::rows},
                                {"w2", ParamClass::attn_out, VectorAxis::columns},
                                {"e", ParamClass::embedding, VectorAxis::rows},
                                {"g", ParamClass::gain, VectorAxis::rows}};

double worst_error(const Golden& golden,
                   const std::string& settings,
                   Constraint constraint,
                   DType dtype) {
  OptimSpec spec;
  const Settings given = Settings::from_toml(settings, "golden");
  SettingsReader reader(given);
  reader.read("", spec);
  reader.refuse_unknown();
  spec.lr = 1;
  double decay = 0;
  ParamStore params;
  for (const Tensors& tensor : kTensors) {
    const double own_decay = golden.number_in("weight_decay", tensor.name);
    decay = std::max(decay, own_decay);
    Shape shape;
    for (const Index size : golden.shape(say("init/", tensor.name))) shape.append(size);
    const bool bound = tensor.kind != ParamClass::gain;
    params.add({tensor.name,
                shape,
                {.kind = tensor.kind,
                 .decay = own_decay > 0,
                 .lr_scale = golden.number_in("lr_factor", tensor.name),
                 .constraint = bound ? constraint : Constraint::free,
                 .axis = tensor.axis}});
  }
  if (decay > 0) spec.weight_decay = decay;
  if (decay == 0 && spec.name != OptimName::riemannian_adam &&
      spec.name != OptimName::tangent_adam) {
    spec.weight_decay = 0;
  }
  params.allocate(dtype);
  const auto set = [](const Tensor& to, const std::vector<double>& from, Index first) {
    const Index cols = to.shape.cols();
    for (Index i = 0; i < to.count(); ++i) {
      set_value(to, i / cols, i % cols, from[static_cast<std::size_t>(first + i)]);
    }
  };
  for (const Param& param : params.params()) {
    set(params.value(param), golden.values("init/" + param.name), 0);
  }
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(params, spec);
  const std::vector<double> rates = golden.values("lr");
  double worst = 0;
  for (std::size_t step = 0; step < rates.size(); ++step) {
    for (const Param& param : params.params()) {
      set(params.grad(param),
          golden.values("grad/" + param.name),
          static_cast<Index>(step) * param.count());
    }
    optimizer->step(params, {.lr = rates[step]});
    for (const Param& param : params.params()) {
      const std::vector<double> after = golden.values("after/" + param.name);
      const auto first = after.begin() + static_cast<std::ptrdiff_t>(step) * param.count();
      worst = std::max(
          worst, relative_error(values_of(params.value(param)), {first, first + param.count()}, 0));
    }
  }
  return worst;
}

class OptimizerParity : public testing::TestWithParam<std::string> {};

TEST_P(OptimizerParity, TwelveSteps) {
  const std::string name = GetParam();
  const std::string short_name = name.substr(name.find('/') + 1);
  if (short_name == "oblique_adam") GTEST_SKIP() << "a variant that Norma does not have";
  Constraint constraint = Constraint::free;
  const std::string settings = settings_of(short_name, constraint);
  ASSERT_FALSE(settings.empty()) << "no settings for the golden " << name;
  const Golden golden(name);
  const double exact = worst_error(golden, settings, constraint, DType::f64);
  const double fast = worst_error(golden, settings, constraint, DType::f32);
  std::printf("%-38s f64 %.1e   f32 %.1e\n", name.c_str(), exact, fast);
  // torch.optim.Muon multiplies in bf16: eight bits of a step.
  const bool rounded = name.starts_with("torch_optim/muon");
  EXPECT_LE(exact, rounded ? kBf16Steps : kF64);
  EXPECT_LE(fast, rounded ? kBf16Steps : kF32);
}

INSTANTIATE_TEST_SUITE_P(Goldens,
                         OptimizerParity,
                         testing::ValuesIn(goldens_in({"optimizers", "torch_optim"})),
                         test::test_name);

}  // namespace
}  // namespace norma
