// R3: what a sequence costs does not depend on its neighbours in the batch, on padding, or on how a
// batch is cut.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "norma/base/text.h"
#include "norma/train/trainer.h"
#include "tests/battery/small_run.h"

namespace norma::battery {
namespace {

constexpr Index kSequences = 8;
constexpr Index kBatches[] = {2, 3, 7, 8};
constexpr const char* kSchemes[] = {"dnt", "pre-ln", "ngpt", "post-ln"};

/// The matrix library may take another path for products of fewer than 16 rows, whose sums have
/// another order: largest relative difference of a token's loss. docs/reliability.md states it.
constexpr double kFewTokensBound = 1e-6;
/// The same for gradients of a batch that is cut into micro-batches, against the norm of all.
constexpr double kSplitBound = 1e-6;

const std::string kBatchNorm = "scheme.attn_pre={ norm = \"bn\", statistics = \"position\" }";

struct Given {
  std::string scheme = "dnt";
  std::string more = "model.context=32";  // another change of the recipe
  Index tokens = 16;                      // of a sequence
  Index batch = 1;
  Index padding = 0;  // tokens behind each sequence, which nobody is to notice
  bool training = false;
};

/// Losses of the tokens of eight sequences, computed `batch` at a time.
std::vector<float> token_losses(const Given& given) {
  const Index length = given.tokens + given.padding;
  Trainer trainer(tiny_recipe({say("scheme.base=", given.scheme), "model.context=32", given.more}),
                  tiny_data());
  const TrainWindows windows(trainer.data().train, given.tokens, 1);
  std::vector<float> losses;
  for (Index first = 0; first < kSequences; first += given.batch) {
    const Index rows = std::min(given.batch, kSequences - first);
    const OwnedTensor plain({rows, given.tokens}, DType::i32);
    const OwnedTensor plain_targets({rows * given.tokens}, DType::i32);
    windows.fill(static_cast<std::uint64_t>(first), plain.tensor, plain_targets.tensor);
    const OwnedTensor ids({rows, length}, DType::i32);
    const OwnedTensor targets({rows * length}, DType::i32);
    const OwnedTensor lengths({rows}, DType::i32);
    for (Index row = 0; row < rows; ++row) {
      set_value(lengths.tensor, 0, row, static_cast<double>(given.tokens));
      for (Index t = 0; t < length; ++t) {
        const bool real = t < given.tokens;
        set_value(ids.tensor, row, t, real ? value_at(plain.tensor, row, t) : 3);
        set_value(targets.tensor,
                  0,
                  row * length + t,
                  real ? value_at(plain_targets.tensor, 0, row * given.tokens + t) : -1);
      }
    }
    trainer.tape().reset();
    const Var values = trainer.tape().evaluate([&] {
      return trainer.model()
          .loss(trainer.tape(),
                ids.tensor,
                targets.tensor,
                {},
                {.training = given.training},
                given.padding > 0 ? lengths.tensor : Tensor{})
          .token_losses;
    });
    for (Index row = 0; row < rows; ++row) {
      for (Index t = 0; t < given.tokens; ++t) {
        losses.push_back(static_cast<float>(value_at(values.value(), 0, row * length + t)));
      }
    }
  }
  return losses;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double gap(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - b[i]) / std::abs(double{a[i]}));
  }
  return worst;
}

TEST(BatchInvariance, SixteenTokensAndMoreGiveTheSameBits) {
  int compared = 0;
  for (const char* scheme : kSchemes) {
    for (const Index tokens : {16, 32}) {
      const std::vector<float> one = token_losses({.scheme = scheme, .tokens = tokens});
      for (const Index batch : kBatches) {
        const Given given{.scheme = scheme, .tokens = tokens, .batch = batch};
        EXPECT_TRUE(same_bits(token_losses(given), one)) << scheme << ", batch " << batch;
        ++compared;
      }
    }
  }
  std::printf("R3: %d batches with 16 and 32 tokens a sequence, the same bits\n", compared);
}

TEST(BatchInvariance, FewerTokensStayWithinTheBound) {
  double worst = 0;
  for (const char* scheme : kSchemes) {
    for (const Index tokens : {1, 2, 5, 8, 15}) {
      const std::vector<float> one = token_losses({.scheme = scheme, .tokens = tokens});
      for (const Index batch : kBatches) {
        worst = std::max(
            worst, gap(one, token_losses({.scheme = scheme, .tokens = tokens, .batch = batch})));
      }
    }
  }
  EXPECT_LE(worst, kFewTokensBound);
  std::printf("R3: 80 batches with 1 to 15 tokens a sequence, largest difference %.2g\n", worst);
}

TEST(BatchInvariance, PaddingChangesNothing) {
  double worst = 0;
  for (const char* scheme : kSchemes) {
    const std::vector<float> bare = token_losses({.scheme = scheme});
    for (const Index batch : {1, 3, 8}) {
      for (const Index padding : {1, 7, 16}) {
        const Given given{.scheme = scheme, .batch = batch, .padding = padding};
        worst = std::max(worst, gap(bare, token_losses(given)));
      }
    }
  }
  EXPECT_LE(worst, kFewTokensBound);
  std::printf("R3: 36 batches of padded sequences, largest difference %.2g\n", worst);
}

/// Gradients and loss of the first step, the batch cut as told.
std::vector<double> first_gradients(const std::string& scheme, Index micro_batch, Index batch = 8) {
  Trainer trainer(tiny_recipe({say("scheme.base=", scheme),
                               say("train.batch=", batch),
                               say("train.micro_batch=", micro_batch),
                               "model.context=16"}),
                  tiny_data());
  std::vector<double> values = {trainer.step().loss};
  const Tensor grads = trainer.params().grads();
  for (Index i = 0; i < grads.count(); ++i) values.push_back(value_at(grads, 0, i));
  return values;
}

double gap_of_all(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    all += a[i] * a[i];
  }
  return std::sqrt(difference / all);
}

TEST(BatchInvariance, MicroBatchesGiveTheSameGradients) {
  double worst = 0;
  for (const char* scheme : kSchemes) {
    const std::vector<double> whole = first_gradients(scheme, 0);
    for (const Index micro : {1, 2, 4, 8}) {
      worst = std::max(worst, gap_of_all(whole, first_gradients(scheme, micro)));
    }
  }
  EXPECT_LE(worst, kSplitBound);
  std::printf("R3: 16 steps cut into micro-batches, largest difference %.2g\n", worst);
}

// Twins: a norm over the batch, and a sequence that got lost.
TEST(BatchInvarianceTwin, ANormOverTheBatchIsSeen) {
  const Given alone{.scheme = "pre-ln", .more = kBatchNorm, .training = true};
  Given together = alone;
  together.batch = 8;
  EXPECT_GT(gap(token_losses(alone), token_losses(together)), 100 * kFewTokensBound);
}
TEST(BatchInvarianceTwin, ALostSequenceIsSeen) {
  EXPECT_GT(gap_of_all(first_gradients("dnt", 8), first_gradients("dnt", 1, 7)), 100 * kSplitBound);
}

}  // namespace
}  // namespace norma::battery
