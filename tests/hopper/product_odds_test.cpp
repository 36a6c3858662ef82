// The kernel of a classifier's odds (head_odds.h), run on the host, beside the formula.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <ostream>
#include <vector>

#include <gtest/gtest.h>

#include "norma/kernels/cuda/head_odds_tiles.cuh"
#include "tests/hopper/host_product.h"

namespace norma::kernels {
namespace {

struct OddsCase {
  Index rows, width, classes;
  double strange;  // what one row is multiplied by, so that its odds are in excess; 0: none is
};
std::ostream& operator<<(std::ostream& out, const OddsCase& c) {
  return out << c.rows << "x" << c.width << "x" << c.classes << " strange " << c.strange;
}

constexpr Index kStrangeRow = 13;

class HostOdds {
 public:
  explicit HostOdds(const OddsCase& c)
      : of_(c),
        x_(c.rows, c.width),
        weight_(c.classes, c.width),
        odds_(c.rows, c.classes),
        scratch_(static_cast<std::size_t>(head_odds_scratch(c.rows, c.classes)), NAN),
        notes_(OddsNotes::of(scratch_.data(), c.rows, c.classes)) {
    x_.draw(1);
    weight_.draw(2, 1 / std::sqrt(static_cast<float>(c.width)));
    if (c.strange != 0) {
      for (Index i = 0; i < c.width; ++i) {
        Bf16& one = x_.all()(kStrangeRow, i);
        one = to_bf16(to_float(one) * static_cast<float>(c.strange));
      }
    }
    for (Index r = 0; r < c.rows; ++r) {
      targets_.push_back(r % 11 == 5 ? -1 : static_cast<std::int32_t>((r * 7919 + 13) % c.classes));
      const double z = kBits * (targets_.back() < 0 ? 0 : logit(r, targets_.back()));
      notes_.references[r] =
          reference_of(targets_.back(), c.classes, static_cast<float>(z) + kOddsRoom);
      notes_.largest[r] = ordered_bits(-INFINITY);
    }
    std::fill_n(notes_.in_excess, odds_tiles(c.rows), 0U);
  }

  void run(hopper::When when) {
    products::Maps maps{};
    maps.a = map_of(x_, {.rows = products::kTileRows});
    maps.b = map_of(weight_, {.rows = products::kTileColumns / 2});
    maps.out[0] = map_of(odds_);
    turn<OddsTurn::all>(maps, when);
    turn<OddsTurn::largest>(maps, when);
    turn<OddsTurn::again>(maps, when);
  }

  void compare() {
    for (Index r = 0; r < of_.rows; ++r) {
      const Index tile = r / kOddsTile;
      const bool again = of_.strange != 0 && tile == kStrangeRow / kOddsTile;
      ASSERT_EQ(notes_.in_excess[tile] != 0, again);
      const std::int32_t target = targets_[static_cast<std::size_t>(r)];
      if (target < 0) {
        for (Index v = 0; v < of_.classes; ++v) ASSERT_LE(odds_.at(r, v), 0x1p-126);
        continue;
      }
      double reference = static_cast<double>(notes_.references[r]);
      if (again) {
        double largest = -INFINITY;
        for (Index v = 0; v < of_.classes; ++v) largest = std::max(largest, logit(r, v));
        ASSERT_NEAR(number_of(notes_.largest[r]), largest, 1e-5 * std::abs(largest));
        reference = kBits * static_cast<double>(number_of(notes_.largest[r]));
      }
      double sum = 0;
      for (Index v = 0; v < of_.classes; ++v) {
        if (v == target) continue;
        const double wanted = std::exp2(kBits * logit(r, v) - reference);
        sum += wanted;
        // To bf16's eight bits, and f32's of the logit.
        const double within = (5e-3 + 2e-6 * std::abs(reference)) * wanted + 1e-30;
        ASSERT_NEAR(odds_.at(r, v), wanted, within) << r << " " << v;
      }
      double told = 0;
      for (Index t = 0; t < odds_tiles(of_.classes); ++t) {
        told += static_cast<double>(notes_.partials[t * of_.rows + r]);
      }
      ASSERT_NEAR(told, sum, (1e-4 + 2e-6 * std::abs(reference)) * sum) << r;
      ASSERT_NEAR(notes_.hits[r], logit(r, target), 1e-5 * (1 + std::abs(reference))) << r;
    }
    EXPECT_TRUE(odds_.is_untouched_behind());
  }

 private:
  static constexpr double kBits = std::numbers::log2e;

  template <OddsTurn kTurn>
  void turn(const products::Maps& maps, hopper::When when) {
    static_assert(products::odds::kBytes <= hopper::kSharedBytes);
    const products::odds::Arg arg{notes_, targets_.data()};
    hopper::run(product_launch(when), [&] {
      products::odds::odds_kernel<kTurn>(maps, shape_of(of_.rows, of_.classes, of_.width), arg);
    });
  }
  double logit(Index row, Index c) const {
    double sum = 0;
    for (Index i = 0; i < of_.width; ++i) sum += x_.at(row, i) * weight_.at(c, i);
    return sum;
  }

  OddsCase of_;
  HostRows x_;
  HostRows weight_;
  HostRows odds_;
  std::vector<std::int32_t> targets_;
  std::vector<float> scratch_;
  OddsNotes notes_;
};

class HopperOdds : public testing::TestWithParam<OddsCase> {};

TEST_P(HopperOdds, AreTheFormula) {
  for (const hopper::When when : kBothWays) {
    HostOdds host(GetParam());
    host.run(when);
    host.compare();
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes,
                         HopperOdds,
                         testing::Values(OddsCase{1, 8, 8, 0},
                                         OddsCase{300, 72, 520, 0},
                                         OddsCase{260, 328, 264, 0},
                                         OddsCase{260, 72, 264, 100}));

}  // namespace
}  // namespace norma::kernels
