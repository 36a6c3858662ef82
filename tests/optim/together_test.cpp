// Which parameters are stepped at once, and that this changes no bit of any of them.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/device/device.h"
#include "norma/kernels/parallel.h"
#include "norma/optim/job.h"
#include "norma/optim/optimizer.h"
#include "tests/optim/zoo.h"
#include "tests/support/needs_gpu.h"

namespace norma {
namespace {

using Names = std::vector<std::string>;
using test::Zoo;

/// What blocks of a model declare.
struct Crowd {
  Constraint constraint = Constraint::unit;
  int layers = 3;
  Index width = 16;

  std::vector<ParamSpec> specs() const {
    const auto tags = [&](ParamClass kind, VectorAxis axis = VectorAxis::rows) {
      return ParamTags{.kind = kind, .decay = true, .constraint = constraint, .axis = axis};
    };
    std::vector<ParamSpec> all{{"embedding", {37, width}, tags(ParamClass::embedding)}};
    for (int layer = 0; layer < layers; ++layer) {
      const auto name = [&](const char* what) { return what + std::to_string(layer); };
      all.push_back({name("q"), {width, width}, tags(ParamClass::query)});
      all.push_back({name("v"), {width, width}, tags(ParamClass::value)});
      all.push_back({name("out"), {width, width}, tags(ParamClass::attn_out, VectorAxis::columns)});
      all.push_back({name("gain"), {width}, {.kind = ParamClass::gain, .decay = false}});
      all.push_back({name("up"), {3 * width, width}, tags(ParamClass::ffn_up)});
      all.push_back(
          {name("down"), {width, 3 * width}, tags(ParamClass::ffn_down, VectorAxis::columns)});
      all.push_back(
          {name("scale"), {width}, {.kind = ParamClass::scale, .decay = false, .lr_scale = 0.25}});
    }
    all.push_back({"head", {37, width}, tags(ParamClass::head)});
    return all;
  }
};

void declare(ParamStore& params, const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) params.add(spec);
}

/// The first parameter of every span, batch by batch.
std::vector<Names> batches(const ParamStore& params, const OptimSpec& spec) {
  const RuleBook rules(resolved(spec));
  const std::vector<Job> jobs = jobs_of(params, resolved(spec), rules);
  std::vector<Names> all;
  for (const std::vector<std::size_t>& batch : batches_of(jobs)) {
    Names& names = all.emplace_back();
    for (const std::size_t job : batch) names.push_back(params.params()[jobs[job].span.first].name);
  }
  return all;
}
std::vector<Names> batches(const Crowd& crowd, const OptimSpec& spec) {
  ParamStore params;
  declare(params, crowd.specs());
  params.allocate(DType::f32);
  return batches(params, spec);
}

TEST(Batches, HoldWhatHasOneShapeAndOneConstraint) {
  const std::vector<Names> want{{"embedding", "head"},
                                {"q0", "v0", "q1", "v1"},
                                {"out0", "out1"},
                                {"gain0", "scale0", "gain1", "scale1"},
                                {"up0", "up1"},
                                {"down0", "down1"}};
  for (const OptimName name : {OptimName::adamw, OptimName::lion, OptimName::tangent_adam}) {
    EXPECT_EQ(batches(Crowd{.layers = 2}, {.name = name}), want) << word_of(name);
  }
}

const std::vector<Names> kMatricesAlone{
    {"embedding", "head"}, {"q0"}, {"v0"}, {"out0"}, {"gain0", "scale0"}, {"up0"}, {"down0"}};

TEST(Batches, KeepRulesApart) {
  // Vectors take another rule than spheres.
  EXPECT_EQ(
      batches(Crowd{.layers = 1}, {.name = OptimName::riemannian_adam}),
      (std::vector<Names>{
          {"embedding", "head"}, {"q0", "v0"}, {"out0"}, {"gain0", "scale0"}, {"up0"}, {"down0"}}));
  // Muon has scratch memory for one matrix.
  EXPECT_EQ(batches(Crowd{.layers = 1}, {.name = OptimName::muon}), kMatricesAlone);
}

TEST(Batches, LeaveCappedAloneAndLazyWithLazy) {
  const OptimSpec spec{.name = OptimName::adamw, .lazy_rows = true, .angular_cap = 0.01};
  EXPECT_EQ(batches(Crowd{.layers = 1}, spec), kMatricesAlone);
  // A hidden matrix of a table's shape is not lazy.
  ParamStore params;
  const auto add = [&](const char* name, ParamClass kind) {
    params.add({name, {16, 16}, {.kind = kind, .constraint = Constraint::unit}});
  };
  add("embedding", ParamClass::embedding);
  add("query", ParamClass::query);
  add("head", ParamClass::head);
  params.allocate(DType::f32);
  EXPECT_EQ(batches(params, {.lazy_rows = true}),
            (std::vector<Names>{{"embedding", "head"}, {"query"}}));
}

TEST(Batches, HoldNoFrozenParameterAndNotMoreThanARuleTakes) {
  ParamStore params;
  declare(params, Crowd{.layers = 30}.specs());
  params.allocate(DType::f32);
  params.freeze("q1");
  std::map<std::string, int> seen;
  for (const Names& batch : batches(params, {.name = OptimName::adamw})) {
    EXPECT_LE(batch.size(), kMostPlaces);
    for (const std::string& name : batch) ++seen[name];
  }
  EXPECT_EQ(seen.size(), params.params().size() - 1);
  EXPECT_FALSE(seen.contains("q1"));
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
}

TEST(Batches, HaveScratchMemoryForEachOfThem) {
  const auto bytes = [](std::size_t matrices) {
    ParamStore params;
    for (std::size_t i = 0; i < matrices; ++i) {
      params.add({std::to_string(i),
                  {64, 48},
                  {.constraint = Constraint::unit, .axis = VectorAxis::columns}});
    }
    params.allocate(DType::f32);
    return Optimizer(params, {.name = OptimName::adamw}).scratch_bytes();
  };
  // The squares of 48 columns, by chunks of rows.
  const auto squares = static_cast<std::size_t>(kernels::RowChunks(64).count * 48) * sizeof(float);
  EXPECT_EQ(bytes(4) - bytes(3), sizeof(kernels::AdamRule) + aligned_bytes(squares));
  EXPECT_EQ(bytes(kMostPlaces + 1) - bytes(kMostPlaces), sizeof(kernels::AdamRule));
}

struct Case {
  std::string name;
  OptimSpec spec;
  Crowd crowd;
};
std::ostream& operator<<(std::ostream& out, const Case& value) { return out << value.name; }

std::vector<Case> cases() {
  using enum OptimName;
  std::vector<Case> all;
  for (const OptimName name : {sgdw, adamw, gated_adamw, lion, adagrad, rmsprop, signsgd, lars}) {
    all.push_back({std::string(word_of(name)), {.name = name}, {}});
    all.push_back({std::string(word_of(name)) + "_free", {.name = name}, {Constraint::free}});
  }
  for (const OptimName name : {tangent_adam, riemannian_adam, muon}) {
    all.push_back({std::string(word_of(name)), {.name = name}, {}});
  }
  all.push_back({"caution", {.name = sgdw, .caution = true}, {}});
  all.push_back({"lazy", {.name = adamw, .lazy_rows = true}, {}});
  all.push_back({"capped", {.name = adamw, .angular_cap = 0.01}, {}});
  all.push_back({"row_max", {.name = adamw}, {Constraint::row_max}});
  all.push_back({"frobenius", {.name = adamw}, {Constraint::frobenius}});
  all.push_back({"spectral", {.name = adamw}, {Constraint::spectral}});
  all.push_back({"odd", {.name = adamw}, {.layers = 3, .width = 13}});
  all.push_back({"wide", {.name = adamw}, {.layers = 2, .width = 520}});
  all.push_back({"many", {.name = adamw}, {.layers = 45}});
  return all;
}

/// A store with an optimizer, whose weights and gradients depend on the parameters' names alone.
class Stepped {
 public:
  Stepped(const std::vector<ParamSpec>& specs, const OptimSpec& spec, Device device) {
    declare(params_, specs);
    params_.allocate(device.kind == DeviceKind::cuda ? DType::bf16 : DType::f32, device);
    for (const Param& param : params_.params()) draw(params_.value(param), param, 0, 0.5);
    apply_constraints(params_);
    optimizer_ = make_optimizer(params_, spec);
  }
  /// A step has two parts; a graph is made of the second.
  void prepare() {
    ++step_;
    for (const Param& param : params_.params()) {
      draw(params_.grad(param), param, step_, 1);
      // In every second step the tables have no gradient, for rows that rest.
      if (param.shape.rows() == 37 && step_ % 2 == 0) fill(params_.grad(param), 0);
    }
    optimizer_->prepare({.lr = 0.01, .grad_scale = 0.9});
  }
  void apply() { optimizer_->apply(params_); }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      prepare();
      apply();
    }
  }
  /// Weights, and working copies where there are some.
  std::map<std::string, std::vector<double>> all() const {
    std::map<std::string, std::vector<double>> found;
    const Tensor copies = params_.copies();
    for (const Param& param : params_.params()) {
      found[param.name] = Zoo::list(params_.value(param));
      if (!copies || param.shape.rank() < 2) continue;
      found[param.name + " in bf16"] = Zoo::list(
          Tensor(copies.as<Bf16>() + param.offset, param.shape, DType::bf16, copies.device));
    }
    for (const StateTensor& state : optimizer_->state()) {
      if (state.name != "step") found[state.name] = Zoo::list(state.tensor);
    }
    return found;
  }

 private:
  static void draw(const Tensor& to, const Param& param, int step, double spread) {
    Zoo::draw_into(to, std::hash<std::string>{}(param.name) + static_cast<unsigned>(step), spread);
  }
  ParamStore params_;
  std::unique_ptr<Optimizer> optimizer_;
  int step_ = 0;
};

void expect_the_same_alone(const Case& at, Device device) {
  const std::vector<ParamSpec> specs = at.crowd.specs();
  Stepped together(specs, at.spec, device);
  together.steps(3);
  const auto got = together.all();
  for (const ParamSpec& spec : specs) {
    Stepped alone({spec}, at.spec, device);
    alone.steps(3);
    for (const auto& [name, values] : alone.all()) EXPECT_EQ(got.at(name), values) << name;
  }
}

class Together : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Together, testing::ValuesIn(cases()), [](const auto& which) {
  return which.param.name;
});
TEST_P(Together, TheBitsAreThoseOfStepsAlone) { expect_the_same_alone(GetParam(), {}); }

constexpr Device kGpu{DeviceKind::cuda};
class GpuTogether : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, GpuTogether, testing::ValuesIn(cases()), [](const auto& which) {
  return which.param.name;
});
TEST_P(GpuTogether, TheBitsAreThoseOfStepsAlone) {
  NORMA_NEEDS_GPU();
  expect_the_same_alone(GetParam(), kGpu);
}
TEST_P(GpuTogether, AGraphRepeatsTheStep) {
  NORMA_NEEDS_GPU();
  Stepped queued(GetParam().crowd.specs(), GetParam().spec, kGpu);
  queued.steps(4);
  Stepped replayed(GetParam().crowd.specs(), GetParam().spec, kGpu);
  replayed.steps(1);  // chooses products
  device::Graph graph;
  graph.capture([&] { replayed.apply(); });
  for (int step = 2; step <= 4; ++step) {
    replayed.prepare();
    graph.launch();
  }
  EXPECT_EQ(replayed.all(), queued.all());
}

}  // namespace
}  // namespace norma
