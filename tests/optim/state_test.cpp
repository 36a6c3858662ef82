// What holds for every optimizer: state, resuming, threads, memory, frozen parameters.
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "norma/base/threads.h"
#include "norma/optim/clip.h"
#include "norma/optim/optimizer.h"
#include "tests/optim/zoo.h"
#include "tests/support/expect.h"
#include "tests/support/heap_count.h"

namespace norma {
namespace {

using test::Cage;
using test::Zoo;

struct Case {
  std::string name;
  OptimSpec spec;
};
std::ostream& operator<<(std::ostream& out, const Case& value) { return out << value.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  all.reserve(Words<OptimName>::kAll.size());
  for (const auto& [word, name] : Words<OptimName>::kAll) {
    all.push_back({std::string(word), {.name = name}});
  }
  all.push_back({"caution", {.name = OptimName::sgdw, .caution = true}});
  all.push_back({"adam_hyperball", {.name = OptimName::adamw, .hyperball = true}});
  all.push_back({"muon_hyperball", {.name = OptimName::muon, .hyperball = true}});
  all.push_back({"normuon", {.name = OptimName::muon, .muon_norm = MuonNorm::normuon}});
  all.push_back({"capped", {.name = OptimName::adamw, .angular_cap = 0.01}});
  all.push_back({"lazy", {.name = OptimName::adamw, .lazy_rows = true}});
  return all;
}

class EveryOptimizer : public testing::TestWithParam<Case> {
 protected:
  static void steps(Zoo& zoo, Optimizer& optimizer, int from, int to) {
    for (int t = from; t <= to; ++t) {
      zoo.draw(static_cast<std::uint64_t>(t));
      optimizer.step(zoo.params, {.lr = 0.01, .grad_scale = 0.9});
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, testing::ValuesIn(cases()), [](const auto& chosen) {
  return chosen.param.name;
});

TEST_P(EveryOptimizer, ResumesBitForBit) {
  for (const Cage cage : {Cage::open, Cage::spheres}) {
    Zoo whole(DType::f32, cage);
    Optimizer straight(whole.params, GetParam().spec);
    steps(whole, straight, 1, 3);
    // A second pair takes over weights and states in the middle.
    Zoo other(DType::f32, cage);
    copy(whole.params.values(), other.params.values());
    Optimizer resumed(other.params, GetParam().spec);
    const auto from = straight.state();
    const auto to = resumed.state();
    ASSERT_EQ(from.size(), to.size());
    std::set<std::string> names;
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      EXPECT_TRUE(names.insert(from[i].name).second) << from[i].name << " twice";
      copy(from[i].tensor, to[i].tensor);
    }
    EXPECT_EQ(resumed.steps_done(), 3);
    steps(whole, straight, 4, 6);
    steps(other, resumed, 4, 6);
    EXPECT_TRUE(test::same_bits(other.params.values(), whole.params.values()));
  }
}

TEST_P(EveryOptimizer, InTwoPartsWithTheFactorInMemoryItIsTheSameStep) {
  for (const Cage cage : {Cage::open, Cage::spheres}) {
    Zoo whole(DType::f32, cage);
    Zoo parts(DType::f32, cage);
    Optimizer one(whole.params, GetParam().spec);
    Optimizer two(parts.params, GetParam().spec);
    const Clipper clip_one(whole.params, GetParam().spec);
    const Clipper clip_two(parts.params, GetParam().spec);
    for (std::uint64_t t = 1; t <= 3; ++t) {
      whole.draw(t);
      parts.draw(t);
      const ClipResult clipped = clip_one(whole.params);
      EXPECT_LT(clipped.grad_scale, 1);
      one.step(whole.params, {.lr = 0.01, .grad_scale = clipped.grad_scale});
      two.prepare({.lr = 0.01});
      clip_two.clip(parts.params);
      two.apply(parts.params, clip_two.grad_scale());
    }
    EXPECT_TRUE(test::same_bits(parts.params.values(), whole.params.values()));
  }
}

TEST_P(EveryOptimizer, CopiesInBf16FollowTheMasters) {
  Zoo zoo(DType::bf16, Cage::spheres);
  Zoo plain(DType::f32, Cage::spheres);
  Optimizer optimizer(zoo.params, GetParam().spec);
  Optimizer same(plain.params, GetParam().spec);
  steps(zoo, optimizer, 1, 2);
  steps(plain, same, 1, 2);
  EXPECT_TRUE(test::same_bits(zoo.params.values(), plain.params.values()));
  const Tensor copies = zoo.params.copies();
  const OwnedTensor rounded(copies.shape, DType::bf16);
  convert(plain.params.values(), rounded.tensor);
  EXPECT_TRUE(test::same_bits(copies, rounded.tensor));
}

TEST_P(EveryOptimizer, OneAndTwoThreadsGiveTheSameBits) {
  const auto run = [](int threads) {
    const ThreadScope scope(threads);
    Zoo zoo(DType::f32, Cage::spheres, 160);
    Optimizer optimizer(zoo.params, GetParam().spec);
    steps(zoo, optimizer, 1, 2);
    return test::copy_of(zoo.params.values());
  };
  EXPECT_TRUE(test::same_bits(run(2).tensor, run(1).tensor));
}

TEST_P(EveryOptimizer, TakesNothingFromTheHeap) {
  if (!test::HeapCount::possible()) GTEST_SKIP() << "a sanitizer owns the heap";
  for (const Cage cage : {Cage::open, Cage::spheres}) {
    Zoo zoo(DType::f32, cage, 64);
    Optimizer optimizer(zoo.params, GetParam().spec);
    const Clipper clip(zoo.params, GetParam().spec);
    steps(zoo, optimizer, 1, 2);
    const test::HeapCount heap;
    const ClipResult clipped = clip(zoo.params);
    optimizer.step(zoo.params, {.lr = 0.01, .grad_scale = clipped.grad_scale});
    EXPECT_EQ(heap.calls(), 0);
  }
}

TEST_P(EveryOptimizer, F32FollowsF64AndKeepsUnitVectors) {
  for (const Cage cage : {Cage::open, Cage::spheres}) {
    Zoo single(DType::f32, cage);
    Zoo twice(DType::f64, cage);
    Optimizer in_f32(single.params, GetParam().spec);
    Optimizer in_f64(twice.params, GetParam().spec);
    steps(single, in_f32, 1, 3);
    steps(twice, in_f64, 1, 3);
    const OwnedTensor got = test::converted(single.params.values(), DType::f64);
    EXPECT_TRUE(test::close(got.tensor, twice.params.values(), 1e-4));
    EXPECT_LE(unit_norm_error(single.params), 1e-6);
    EXPECT_LE(unit_norm_error(twice.params), 1e-13);
  }
}

TEST_P(EveryOptimizer, FrozenParametersAndGapsAreUntouched) {
  for (const Cage cage : {Cage::open, Cage::spheres}) {
    // A width that leaves gaps between parameters.
    Zoo zoo(DType::f32, cage, 11);
    const std::vector<double> before = zoo.values("key");
    Optimizer optimizer(zoo.params, GetParam().spec);
    steps(zoo, optimizer, 1, 3);
    EXPECT_EQ(zoo.values("key"), before);
    std::vector<bool> owned(static_cast<std::size_t>(zoo.params.values().count()), false);
    for (const Param& param : zoo.params.params()) {
      for (Index i = 0; i < param.count(); ++i) {
        owned[static_cast<std::size_t>(param.offset + i)] = true;
      }
    }
    for (std::size_t i = 0; i < owned.size(); ++i) {
      if (owned[i]) continue;
      ASSERT_EQ(value_at(zoo.params.values(), 0, static_cast<Index>(i)), 0) << i;
    }
    for (const StateTensor& state : optimizer.state()) {
      EXPECT_EQ(state.name.find("key."), std::string::npos);
    }
  }
}

TEST_P(EveryOptimizer, LearnsAQuadratic) {
  // ½|w − target|² on every parameter: the distance must shrink.
  Zoo zoo(DType::f32);
  Optimizer optimizer(zoo.params, GetParam().spec);
  const OwnedTensor target = test::normals(zoo.params.values().shape, DType::f32, 77, 0.3);
  const auto distance = [&] {
    fill(zoo.params.grads(), 0);
    double sum = 0;
    for (const Param& param : zoo.params.params()) {
      const Tensor grad = zoo.params.grad(param);
      for (Index i = 0; i < param.count() && !param.frozen; ++i) {
        const double apart = value_at(zoo.params.values(), 0, param.offset + i) -
                             value_at(target.tensor, 0, param.offset + i);
        set_value(zoo.params.grads(), 0, param.offset + i, apart);
        sum += apart * apart;
      }
      if (param.frozen) fill(grad, 0);
    }
    return sum;
  };
  const double before = distance();
  for (int i = 0; i < 40; ++i) {
    optimizer.step(zoo.params, {.lr = 0.01});
    (void)distance();
  }
  EXPECT_LT(distance(), before);
}

TEST(State, BytesPerParameter) {
  Zoo zoo(DType::f32, Cage::open, 11);
  const auto moving = static_cast<std::size_t>(zoo.params.count() - zoo.params.find("key").count());
  const auto bytes = [&](const OptimSpec& spec) {
    return Optimizer(zoo.params, spec).state_bytes();
  };
  EXPECT_EQ(bytes({.name = OptimName::sgdw}), 4 * moving);
  EXPECT_EQ(bytes({.name = OptimName::sgdw, .momentum = 0}), 0U);
  EXPECT_EQ(bytes({.name = OptimName::adamw}), 8 * moving);
  EXPECT_EQ(bytes({.name = OptimName::lion}), 4 * moving);
  EXPECT_EQ(bytes({.name = OptimName::signsgd}), 0U);
  // Muon keeps one number for a hidden matrix and two for the rest.
  std::size_t hidden = 0;
  for (const char* name : {"query", "out", "up"}) {
    hidden += static_cast<std::size_t>(zoo.params.find(name).count());
  }
  EXPECT_EQ(bytes({.name = OptimName::muon}), 8 * moving - 4 * hidden);
  Zoo spheres(DType::f32, Cage::spheres, 11);
  std::size_t vectors = 17 + 11 + 22 + 44 + 17;
  EXPECT_EQ(Optimizer(spheres.params, {.name = OptimName::riemannian_adam}).state_bytes(),
            4 * moving + 4 * (22 + vectors));
}

TEST(Optimizer, RefusesWhatCannotBeRight) {
  Zoo zoo(DType::f32);
  Optimizer optimizer(zoo.params, {});
  const auto step = [&](double lr, double scale) {
    return [&, lr, scale] { optimizer.step(zoo.params, {.lr = lr, .grad_scale = scale}); };
  };
  const auto nan = std::nan("");
  EXPECT_TRUE(test::throws<RequestError>(step(nan, 1), {"learning rate", "nan"}));
  EXPECT_TRUE(test::throws<RequestError>(step(-1, 1), {"learning rate", "-1"}));
  EXPECT_TRUE(test::throws<RequestError>(step(1, nan), {"factor of the gradient", "nan"}));
  EXPECT_EQ(optimizer.steps_done(), 0);
  Zoo other(DType::f32, Cage::open, 20);
  EXPECT_TRUE(test::throws<RequestError>([&] { optimizer.step(other.params, {.lr = 0.1}); },
                                         {"it was made for", "elements of f32"}));
  Zoo wide(DType::f64);
  EXPECT_TRUE(
      test::throws<RequestError>([&] { optimizer.step(wide.params, {.lr = 0.1}); }, {"of f64"}));
  ParamStore empty;
  empty.add({"w", {3}, {}});
  EXPECT_TRUE(test::throws<Error>([&] { Optimizer(empty, {}); }, {"must be allocated before"}));
}

}  // namespace
}  // namespace norma
