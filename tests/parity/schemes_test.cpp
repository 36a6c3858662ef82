// Every scheme against an implementation in PyTorch that was written from the formulas alone, with
// random gains, biases and scales of both signs: forward, every gradient, ten steps of training.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/nn/catalogue.h"
#include "norma/optim/clip.h"
#include "norma/optim/optimizer.h"
#include "tests/parity/golden_model.h"
#include "tests/support/test_name.h"

namespace norma {
namespace {

struct Limits {
  double forward;
  double gradient;
};
// f64 shows a wrong epsilon; the f32 limits are the project's own (forward, gradients).
constexpr Limits kF64{1e-10, 1e-9};
constexpr Limits kF32{1e-5, 1e-4};
constexpr double kTenSteps = 1e-4;     // losses in f32, relative
constexpr double kTenStepsF64 = 1e-8;  // the same in f64
constexpr double kAfterF64 = 1e-6;     // parameters after ten steps, which goldens keep in f32

/// Where f64 alone can tell right from wrong: statistics over three samples, and cosine logits with
/// a temperature near its bound, amplify rounding, how much depends on the compiler.
bool amplifies_rounding(const std::string& golden) {
  return golden == "schemes/x-bn-position" || golden == "schemes/swin-v2";
}
constexpr double kAmplified = 1e-3;

struct Errors {
  double forward = 0;
  double gradient = 0;
  std::string worst;  // the parameter with the worst gradient
};

Errors compare(const Golden& golden, DType dtype) {
  GoldenModel at(golden, dtype);
  const OwnedTensor ids = golden.tensor("ids", DType::i32);
  const OwnedTensor targets = golden.tensor("targets", DType::i32);
  const Tensor flat = targets.tensor.reshaped({targets.tensor.count()});
  const LossSpec loss{.z_loss = golden.says("z_loss") ? golden.number("z_loss") : 0};
  Errors errors;
  Tape tape;
  {
    const Var logits = at.model->logits(tape, ids.tensor, {});
    errors.forward = relative_error(values_of(logits.value()), golden.values("logits"), 0);
  }
  tape.reset();
  at.params.begin_accumulation();
  const GptLoss result = at.model->loss(tape, ids.tensor, flat, loss);
  const double value = value_at(result.loss.value(), 0, 0);
  errors.forward = std::max(errors.forward, std::abs(value / golden.values("loss")[0] - 1));
  errors.forward = std::max(
      errors.forward,
      relative_error(values_of(result.token_losses.value()), golden.values("token_losses"), 0));
  tape.backward(result.loss);
  at.params.finish_accumulation();

  // A gradient that is small by cancellation is judged against the model's.
  double largest = 0;
  for (const Param& param : at.params.params()) {
    for (const double g : golden.values("grad/" + param.name))
      largest = std::max(largest, std::abs(g));
  }
  for (const Param& param : at.params.params()) {
    const double error = relative_error(
        values_of(at.params.grad(param)), golden.values("grad/" + param.name), 1e-3 * largest);
    if (error > errors.gradient) {
      errors.gradient = error;
      errors.worst = param.name;
    }
  }
  return errors;
}

class SchemeParity : public testing::TestWithParam<std::string> {};

TEST_P(SchemeParity, SameParameters) {
  const Golden golden(GetParam());
  const GoldenModel at(golden, DType::f64);
  std::set<std::string> ours;
  std::set<std::string> theirs;
  for (const Param& param : at.params.params()) ours.insert(param.name);
  for (const std::string& name : golden.names()) {
    if (name.starts_with("param/")) theirs.insert(name.substr(6));
  }
  EXPECT_EQ(ours, theirs);
}

TEST_P(SchemeParity, ForwardAndGradients) {
  const Golden golden(GetParam());
  const Errors exact = compare(golden, DType::f64);
  const Errors fast = compare(golden, DType::f32);
  std::printf("%-26s f64 forward %.1e gradients %.1e   f32 forward %.1e gradients %.1e (%s)\n",
              GetParam().c_str(),
              exact.forward,
              exact.gradient,
              fast.forward,
              fast.gradient,
              fast.worst.c_str());
  EXPECT_LE(exact.forward, kF64.forward);
  EXPECT_LE(exact.gradient, kF64.gradient) << exact.worst;
  EXPECT_LE(fast.forward, kF32.forward);
  EXPECT_LE(fast.gradient, amplifies_rounding(GetParam()) ? kAmplified : kF32.gradient)
      << fast.worst;
}

/// Ten steps of AdamW with clipping, decay and constraints, on the golden's batches. Returns the
/// largest relative error of the losses before each step, and of the parameters after the last.
Errors train(const Golden& golden, DType dtype) {
  GoldenModel at(golden, dtype);
  const OwnedTensor all_ids = golden.tensor("train_ids", DType::i32);
  const OwnedTensor all_targets = golden.tensor("train_targets", DType::i32);
  const std::vector<double> losses = golden.values("losses");
  const LossSpec loss{.z_loss = golden.says("z_loss") ? golden.number("z_loss") : 0};
  OptimSpec spec{.name = OptimName::adamw, .lr = golden.number("lr")};
  spec.weight_decay = golden.number("weight_decay");
  spec.beta1 = 0.9;
  spec.beta2 = 0.95;
  spec.eps = golden.number("eps");
  spec.clip_bound = golden.number("clip");
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(at.params, spec);
  const Clipper clip(at.params, optimizer->spec());
  Tape tape;
  Errors errors;
  const Shape batch{all_ids.tensor.shape[1], all_ids.tensor.shape[2]};
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Index from = static_cast<Index>(step) * batch.count();
    const Tensor ids(all_ids.tensor.as<std::int32_t>() + from, batch, DType::i32);
    const Tensor targets(all_targets.tensor.as<std::int32_t>() + from, {batch.count()}, DType::i32);
    tape.reset();
    at.params.begin_accumulation();
    const Var value = at.model->loss(tape, ids, targets, loss).loss;
    errors.forward =
        std::max(errors.forward, std::abs(value_at(value.value(), 0, 0) / losses[step] - 1));
    tape.backward(value);
    at.params.finish_accumulation();
    const ClipResult clipped = clip(at.params);
    optimizer->step(at.params, {.lr = spec.lr, .grad_scale = clipped.grad_scale});
  }
  // Adam turns the rounding noise of a gradient that is zero on paper into steps.
  const std::vector<std::string> noise = golden.words("zero_gradients");
  for (const Param& param : at.params.params()) {
    if (std::find(noise.begin(), noise.end(), param.name) != noise.end()) continue;
    const double error =
        relative_error(values_of(at.params.value(param)), golden.values("after/" + param.name), 0);
    if (error > errors.gradient) {
      errors.gradient = error;
      errors.worst = param.name;
    }
  }
  return errors;
}

TEST_P(SchemeParity, SameDecayClasses) {
  const Golden golden(GetParam());
  if (!golden.says("decays")) GTEST_SKIP() << "no training in this golden";
  const GoldenModel at(golden, DType::f64);
  const std::vector<std::string> list = golden.words("decays");
  const std::set<std::string> theirs(list.begin(), list.end());
  std::set<std::string> ours;
  for (const Param& param : at.params.params()) {
    if (param.tags.decay) ours.insert(param.name);
  }
  EXPECT_EQ(ours, theirs);
}

TEST_P(SchemeParity, TenSteps) {
  const Golden golden(GetParam());
  if (!golden.has("losses")) GTEST_SKIP() << "no training in this golden";
  const Errors exact = train(golden, DType::f64);
  const Errors fast = train(golden, DType::f32);
  std::printf("%-26s ten steps: f64 losses %.1e parameters %.1e   f32 losses %.1e\n",
              GetParam().c_str(),
              exact.forward,
              exact.gradient,
              fast.forward);
  EXPECT_LE(exact.forward, kTenStepsF64);
  EXPECT_LE(exact.gradient, kAfterF64) << exact.worst;
  EXPECT_LE(fast.forward, amplifies_rounding(GetParam()) ? kAmplified : kTenSteps);
}

INSTANTIATE_TEST_SUITE_P(Goldens,
                         SchemeParity,
                         testing::ValuesIn(goldens_in({"schemes", "transformers"})),
                         test::test_name);

/// A scheme without a golden is a scheme that nobody checked.
TEST(SchemeParity, EveryTextSchemeHasAGolden) {
  const std::vector<std::string> goldens = golden_names("schemes");
  for (const std::string& name : scheme_names()) {
    if (name == "dual-patchnorm") continue;  // speaks of images alone
    EXPECT_NE(std::find(goldens.begin(), goldens.end(), name), goldens.end()) << name;
  }
}

}  // namespace
}  // namespace norma
