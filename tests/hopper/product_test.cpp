// Products whose tiles are worked on, and the product for gradients of weights, run on the host.
#include <cmath>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "norma/kernels/cuda/product_activation_tiles.cuh"
#include "norma/kernels/cuda/product_gated_gradient_tiles.cuh"
#include "norma/kernels/cuda/product_gated_tiles.cuh"
#include "norma/kernels/cuda/product_weights_tiles.cuh"
#include "tests/hopper/host_product.h"

namespace norma::kernels {
namespace {

struct Sizes {
  Index rows, columns, depth;
};
std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.rows << "x" << s.columns << "x" << s.depth;
}
float deviation(Index depth) { return 1 / std::sqrt(static_cast<float>(depth)); }

/// σ(x), and the tangent form of GELU with its slope.
double opened(double x) { return 1 / (1 + std::exp(-x)); }
struct Gelu {
  double value, slope;
  explicit Gelu(double x) {
    constexpr double kLinear = 1.5957691216057308;
    constexpr double kCube = 0.044715;
    const double open = opened(kLinear * (x + kCube * x * x * x));
    value = x * open;
    slope = open + x * open * (1 - open) * kLinear * (1 + 3 * kCube * x * x);
  }
};
struct Silu {
  double value, slope;
  explicit Silu(double x) : value(x * opened(x)), slope(opened(x) + value * (1 - opened(x))) {}
};

/// Of left (rows, depth) by right (depth, columns), or by right (columns, depth) turned.
double dot(const HostRows& left, const HostRows& right, Index row, Index column) {
  double sum = 0;
  for (Index i = 0; i < left.cols(); ++i) sum += left.at(row, i) * right.at(i, column);
  return sum;
}
double dot_rows(const HostRows& left, const HostRows& right, Index row, Index column) {
  double sum = 0;
  for (Index i = 0; i < left.cols(); ++i) sum += left.at(row, i) * right.at(column, i);
  return sum;
}

class HopperProduct : public testing::TestWithParam<Sizes> {};
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperProduct,
                         testing::Values(Sizes{1, 8, 8},
                                         Sizes{300, 520, 72},
                                         Sizes{260, 264, 328}));

TEST_P(HopperProduct, WithTheGradientOfAnActivation) {
  const Sizes& s = GetParam();
  HostRows dy(s.rows, s.depth);
  HostRows down(s.depth, s.columns);
  HostRows h(s.rows, s.columns);
  dy.draw(1);
  down.draw(2, deviation(s.depth));
  h.draw(3);
  for (const hopper::When when : kBothWays) {
    HostRows dh(s.rows, s.columns);
    HostRows z(s.rows, s.columns);
    products::Maps maps{};
    maps.a = map_of(dy, {.rows = products::kTileRows});
    maps.b = map_of(down);
    maps.in[0] = map_of(h);
    maps.out[0] = map_of(dh);
    maps.out[1] = map_of(z);
    using Finish = products::ActivationGradient<Activation::gelu_tanh>;
    hopper::run(product_launch(when), [&] {
      products::product_kernel<Finish>(maps, shape_of(s.rows, s.columns, s.depth), {.value = true});
    });
    expect_rounded(dh,
                   [&](Index r, Index c) { return dot(dy, down, r, c) * Gelu(h.at(r, c)).slope; });
    expect_rounded(z, [&](Index r, Index c) { return Gelu(h.at(r, c)).value; });
  }
}

TEST_P(HopperProduct, WithAGate) {
  const Sizes& s = GetParam();
  HostRows x(s.rows, s.depth);
  HostRows up(2 * s.columns, s.depth);
  x.draw(1);
  up.draw(2, deviation(s.depth));
  std::vector<float> s_u;
  for (Index c = 0; c < s.columns; ++c) s_u.push_back(1 + 0.01F * static_cast<float>(c % 17));
  for (const hopper::When when : kBothWays) {
    HostRows u(s.rows, s.columns);
    HostRows g(s.rows, s.columns);
    HostRows y(s.rows, s.columns);
    products::Maps maps{};
    maps.a = map_of(x, {.rows = products::kTileRows, .columns = products::gated::kDeep});
    maps.b = map_of(up, {.rows = products::gated::kHalfColumns, .columns = products::gated::kDeep});
    const products::gated::Arg arg{.u = u.all(),
                                   .g = g.all(),
                                   .y = y.all(),
                                   .s_u = s_u.data(),
                                   .s_v = nullptr,
                                   .u_factor = 1.5F,
                                   .g_factor = 2};
    hopper::run(product_launch(when), [&] {
      products::gated::gated_kernel<Activation::silu>(
          maps, shape_of(s.rows, s.columns, s.depth), arg);
    });
    expect_rounded(u, [&](Index r, Index c) { return dot_rows(x, up, r, c); });
    expect_rounded(g, [&](Index r, Index c) { return dot_rows(x, up, r, s.columns + c); });
    expect_rounded(y, [&](Index r, Index c) {
      const double scaled = 1.5 * double{s_u[static_cast<std::size_t>(c)]} * u.at(r, c);
      return scaled * Silu(2 * g.at(r, c)).value;
    });
  }
}

TEST_P(HopperProduct, WithTheGradientOfAGate) {
  const Sizes& s = GetParam();
  HostRows dout(s.rows, s.depth);
  HostRows down(s.depth, s.columns);
  HostRows u(s.rows, s.columns);
  HostRows g(s.rows, s.columns);
  dout.draw(1);
  down.draw(2, deviation(s.depth));
  u.draw(3);
  g.draw(4);
  constexpr double kU = 1.5;
  constexpr double kG = 2;
  const Index parts = (s.rows + 63) / 64;
  for (const hopper::When when : kBothWays) {
    HostRows du(s.rows, s.columns);
    HostRows dg(s.rows, s.columns);
    HostRows y(s.rows, s.columns);
    std::vector<float> sums_u(static_cast<std::size_t>(parts * s.columns), NAN);
    std::vector<float> sums_v = sums_u;
    products::Maps maps{};
    maps.a = map_of(dout, {.rows = products::kTileRows});
    maps.b = map_of(down);
    maps.in[0] = map_of(u);
    maps.in[1] = map_of(g);
    maps.out[0] = map_of(du);
    maps.out[1] = map_of(dg);
    maps.out[2] = map_of(y);
    using Finish = products::gated_gradient::Finish<Activation::silu>;
    const Finish::Arg arg{.scales = {nullptr, nullptr, kU, kG},
                          .sums_u = sums_u.data(),
                          .sums_v = sums_v.data(),
                          .value = true};
    hopper::run(product_launch(when), [&] {
      products::product_kernel<Finish>(maps, shape_of(s.rows, s.columns, s.depth), arg);
    });
    const auto dy = [&](Index r, Index c) { return dot(dout, down, r, c); };
    const auto gate = [&](Index r, Index c) { return Silu(kG * g.at(r, c)); };
    expect_rounded(du, [&](Index r, Index c) { return dy(r, c) * kU * gate(r, c).value; });
    expect_rounded(
        dg, [&](Index r, Index c) { return dy(r, c) * kU * u.at(r, c) * gate(r, c).slope * kG; });
    expect_rounded(y, [&](Index r, Index c) { return kU * u.at(r, c) * gate(r, c).value; });
    for (Index c = 0; c < s.columns; ++c) {
      double of_u = 0;
      double of_v = 0;
      double got_u = 0;
      double got_v = 0;
      for (Index r = 0; r < s.rows; ++r) {
        of_u += dy(r, c) * u.at(r, c) * gate(r, c).value;
        of_v += dy(r, c) * kU * u.at(r, c) * gate(r, c).slope * g.at(r, c);
      }
      for (Index p = 0; p < parts; ++p) {
        got_u += double{sums_u[static_cast<std::size_t>(p * s.columns + c)]};
        got_v += double{sums_v[static_cast<std::size_t>(p * s.columns + c)]};
      }
      ASSERT_NEAR(got_u, of_u, 1e-4) << c;
      ASSERT_NEAR(got_v, of_v, 1e-4) << c;
    }
  }
}

// Three clusters and five tiles: one each, of the other two one is cut for all who are left.
TEST(HopperWeightProduct, AddsPartsOfTiles) {
  namespace weights = products::weights;
  const Sizes s{250, 1100, 824};
  HostRows left(s.depth, s.rows);
  HostRows right(s.depth, s.columns);
  left.draw(1);
  right.draw(2, deviation(s.depth));
  const products::Deal deal = products::deal_of(shape_of(s.rows, s.columns, s.depth), 3);
  ASSERT_GT(products::tiles_to_add(deal), 0);
  for (const hopper::When when : kBothWays) {
    std::vector<float> c(static_cast<std::size_t>(s.rows * s.columns), 1);
    std::vector<float4> workspace(static_cast<std::size_t>(2 * deal.clusters * weights::kPartFours),
                                  {NAN, NAN, NAN, NAN});
    products::Maps maps{};
    maps.a = map_of(left);
    maps.b = map_of(right);
    const weights::Result result{
        c.data(), s.columns, static_cast<int>(s.rows), static_cast<int>(s.columns), true};
    hopper::run(product_launch(when, 2 * static_cast<unsigned>(deal.clusters)),
                [&] { weights::weights_kernel(maps, deal, result, workspace.data()); });
    const int blocks = products::tiles_to_add(deal) * weights::kBlocksOfTile;
    hopper::run({.blocks = static_cast<unsigned>(blocks), .threads = products::kWarpgroup},
                [&] { weights::add_parts_kernel(deal, result, workspace.data()); });
    for (Index r = 0; r < s.rows; ++r) {
      for (Index column = 0; column < s.columns; ++column) {
        double want = 1;
        for (Index i = 0; i < s.depth; ++i) want += left.at(i, r) * right.at(i, column);
        ASSERT_NEAR(c[static_cast<std::size_t>(r * s.columns + column)], want, 1e-4)
            << r << " " << column;
      }
    }
  }
}

}  // namespace
}  // namespace norma::kernels
