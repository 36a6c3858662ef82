// Every kind of optimizer on the GPU against the same steps on the CPU.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/device/device.h"
#include "norma/optim/angle_meter.h"
#include "norma/optim/clip.h"
#include "tests/optim/zoo.h"
#include "tests/support/needs_gpu.h"

namespace norma {
namespace {

using test::Cage;
using test::Zoo;

constexpr Device kGpu{DeviceKind::cuda};
constexpr int kSteps = 10;

struct Case {
  std::string name;
  OptimSpec spec;
  Cage cage = Cage::open;
  Constraint constraint = Constraint::free;  // of the hidden matrices of an open cage
};

std::vector<Case> cases() {
  using enum OptimName;
  std::vector<Case> all;
  for (const OptimName name : {sgdw,
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
                               tangent_adam}) {
    all.push_back({std::string(word_of(name)), {.name = name}});
  }
  for (const OptimName name : {sgdw, adamw, lion, muon, riemannian_adam, tangent_adam}) {
    all.push_back({std::string(word_of(name)) + "_spheres", {.name = name}, Cage::spheres});
  }
  all.push_back({"sgdw_caution", {.name = sgdw, .caution = true}});
  all.push_back({"rmsprop_momentum", {.name = rmsprop, .momentum = 0.9}});
  all.push_back({"adamw_lazy", {.name = adamw, .lazy_rows = true}});
  all.push_back({"adamw_lazy_spheres", {.name = adamw, .lazy_rows = true}, Cage::spheres});
  all.push_back({"adamw_capped", {.name = adamw, .angular_cap = 0.01}, Cage::spheres});
  all.push_back({"adamw_hyperball", {.name = adamw, .hyperball = true}});
  all.push_back({"muon_hyperball", {.name = muon, .hyperball = true}});
  all.push_back({"muon_normuon", {.name = muon, .muon_norm = MuonNorm::normuon}});
  all.push_back(
      {"muon_polar", {.name = muon, .muon_coefficients = MuonCoefficients::polar_express}});
  all.push_back({"riemannian_geodesic",
                 {.name = riemannian_adam,
                  .transport = Transport::parallel,
                  .retraction = Retraction::exponential},
                 Cage::spheres});
  all.push_back({"clip_per_tensor", {.name = adamw, .clip = ClipMode::per_tensor}});
  all.push_back({"clip_agc", {.name = adamw, .clip = ClipMode::agc}});
  all.push_back({"no_clip", {.name = adamw, .clip_bound = 0}});
  all.push_back({"adamw_frobenius", {.name = adamw}, Cage::open, Constraint::frobenius});
  all.push_back({"adamw_spectral", {.name = adamw}, Cage::open, Constraint::spectral});
  all.push_back({"adamw_row_max", {.name = adamw}, Cage::open, Constraint::row_max});
  return all;
}

/// Zoos on both devices with the same weights, stepped with the same gradients.
class GpuOptimizer : public testing::TestWithParam<Case> {};

/// The largest difference, beside the root mean square of what is wanted.
double gap(const std::vector<double>& got, const std::vector<double>& want) {
  double worst = 0;
  double squares = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double apart = std::abs(got[i] - want[i]);
    if (!(apart <= worst)) worst = apart;
    squares += want[i] * want[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(want.size()));
}

TEST_P(GpuOptimizer, FollowsTheCpu) {
  NORMA_NEEDS_GPU();
  const Case& at = GetParam();
  Zoo cpu(DType::f32, at.cage, 12, {}, at.constraint);
  Zoo gpu(DType::f32, at.cage, 12, kGpu, at.constraint);
  copy(cpu.params.values(), gpu.params.values());  // lengths were rounded by either in its own way
  Optimizer here(cpu.params, at.spec);
  Optimizer there(gpu.params, at.spec);
  const Clipper clip_here(cpu.params, at.spec);
  const Clipper clip_there(gpu.params, at.spec);
  for (int step = 1; step <= kSteps; ++step) {
    cpu.draw(static_cast<std::uint64_t>(step));
    fill(cpu.params.grad(cpu.params.find("head")), step % 2);  // every second step nothing
    copy(cpu.params.grads(), gpu.params.grads());
    const ClipResult wanted = clip_here(cpu.params);
    here.step(cpu.params, {.lr = 0.01, .grad_scale = wanted.grad_scale});
    // As a recorded step does it: the factor never comes to the host.
    there.prepare({.lr = 0.01});
    clip_there.clip(gpu.params);
    there.apply(gpu.params, clip_there.grad_scale());
    const ClipResult found = clip_there.result();
    EXPECT_NEAR(found.norm, wanted.norm, 1e-6 * wanted.norm);
    EXPECT_NEAR(found.grad_scale, wanted.grad_scale, 1e-6);
    EXPECT_EQ(found.clipped, wanted.clipped);
    if (step > 1) continue;
    EXPECT_LE(gap(Zoo::list(gpu.params.values()), Zoo::list(cpu.params.values())), 2e-6)
        << "one step";
  }
  EXPECT_LE(gap(Zoo::list(gpu.params.values()), Zoo::list(cpu.params.values())), 1e-4);
  EXPECT_LE(unit_norm_error(gpu.params), 1e-6);
}

TEST_P(GpuOptimizer, TheSameBitsTwice) {
  NORMA_NEEDS_GPU();
  const auto run = [] {
    Zoo zoo(DType::f32, GetParam().cage, 12, kGpu, GetParam().constraint);
    Optimizer optimizer(zoo.params, GetParam().spec);
    const Clipper clip(zoo.params, GetParam().spec);
    for (int step = 1; step <= 3; ++step) {
      zoo.draw(static_cast<std::uint64_t>(step));
      optimizer.prepare({.lr = 0.01});
      clip.clip(zoo.params);
      optimizer.apply(zoo.params, clip.grad_scale());
    }
    return Zoo::list(zoo.params.values());
  };
  EXPECT_EQ(run(), run());
}

/// The working copies are the rounded masters, whatever the last pass of a step was.
TEST_P(GpuOptimizer, CopiesAreTheRoundedMasters) {
  NORMA_NEEDS_GPU();
  for (const Masters masters : {Masters::f32, Masters::none}) {
    Zoo zoo(DType::bf16, GetParam().cage, 16, kGpu, GetParam().constraint, masters);
    Optimizer optimizer(zoo.params, GetParam().spec);
    for (int step = 1; step <= 3; ++step) {
      zoo.draw(static_cast<std::uint64_t>(step));
      optimizer.step(zoo.params, {.lr = 0.01});
    }
    for (const Param& param : zoo.params.params()) {
      if (param.shape.rank() < 2) continue;
      const OwnedTensor rounded(param.shape, DType::bf16);
      convert(zoo.params.value(param), rounded.tensor);
      const Tensor copies = zoo.params.copies();
      const Tensor copied(copies.as<Bf16>() + param.offset, param.shape, DType::bf16, kGpu);
      EXPECT_EQ(Zoo::list(copied), Zoo::list(rounded.tensor)) << param.name;
      if (masters == Masters::none) {
        EXPECT_EQ(Zoo::list(copied), Zoo::list(zoo.params.value(param))) << param.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuOptimizer, testing::ValuesIn(cases()), [](const auto& which) {
  return which.param.name;
});

TEST(GpuAngleMeter, MeasuresAsTheCpu) {
  NORMA_NEEDS_GPU();
  Zoo cpu(DType::f32, Cage::spheres);
  Zoo gpu(DType::f32, Cage::spheres, 12, kGpu);
  copy(cpu.params.values(), gpu.params.values());  // lengths were rounded by either in its own way
  AngleMeter here;
  AngleMeter there;
  here.before(cpu.params);
  there.before(gpu.params);
  cpu.draw(1);
  Optimizer(cpu.params, {}).step(cpu.params, {.lr = 0.1});
  copy(cpu.params.values(), gpu.params.values());
  const std::vector<Angles> want = here.after(cpu.params);
  const std::vector<Angles> got = there.after(gpu.params);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].kind, want[i].kind);
    EXPECT_EQ(got[i].count, want[i].count);
    EXPECT_NEAR(got[i].mean, want[i].mean, 1e-9);
    EXPECT_NEAR(got[i].p95, want[i].p95, 1e-9);
  }
  EXPECT_NEAR(unit_norm_error(gpu.params), unit_norm_error(cpu.params), 1e-12);
}

}  // namespace
}  // namespace norma
