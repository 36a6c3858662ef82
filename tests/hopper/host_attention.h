// An attention of random numbers for kernels that run on the host, and the formula in f64.
#pragma once

#include <cmath>
#include <ostream>
#include <vector>

#include "norma/kernels/attention.h"
#include "norma/kernels/cuda/tile_copy_instructions.cuh"
#include "tests/hopper/host_rows.h"
#include "tests/support/plain_attention.h"

namespace norma::kernels {

struct HostAttentionCase {
  Index batch, tokens, heads, kv_heads, width;
  bool causal;
  double factor;  // of the first head; the next ones have a little more
};
inline std::ostream& operator<<(std::ostream& out, const HostAttentionCase& c) {
  return out << c.batch << "x" << c.tokens << "x" << c.heads << "x" << c.kv_heads << "x" << c.width
             << (c.causal ? " causal " : " full ") << c.factor;
}

/// q, k and v are columns of one matrix, as a layer has them.
class HostAttention {
 public:
  explicit HostAttention(const HostAttentionCase& c)
      : of(c), qkv(rows(), (c.heads + 2 * c.kv_heads) * c.width) {
    qkv.draw(7);
    for (Index h = 0; h < c.heads; ++h) {
      factors.push_back(static_cast<float>(c.factor * (1 + 0.1 * static_cast<double>(h))));
    }
  }

  const HostAttentionCase of;
  HostRows qkv;
  std::vector<float> factors;

  Index rows() const { return of.batch * of.tokens; }
  /// Where the columns of a head begin: of q; of k and v by their own heads.
  Index q_column(Index h) const { return h * of.width; }
  Index k_column(Index kv) const { return (of.heads + kv) * of.width; }
  Index v_column(Index kv) const { return (of.heads + of.kv_heads + kv) * of.width; }
  Index kv_of(Index h) const { return h / (of.heads / of.kv_heads); }
  Index row(Index b, Index i) const { return b * of.tokens + i; }
  /// Of a number in (batch, heads, tokens).
  std::size_t place(Index b, Index h, Index i) const {
    return static_cast<std::size_t>((b * of.heads + h) * of.tokens + i);
  }

  AttentionShape shape() const {
    return test::plain_shape(of.batch, of.tokens, of.heads, of.kv_heads, of.width, of.causal);
  }
  CUtensorMap map(HostRows& rows_of, Index column, Index heads) const {
    return {.data = rows_of.data() + column,
            .width = of.width,
            .heads = heads,
            .rows = of.tokens,
            .count = of.batch,
            .stride = rows_of.stride()};
  }

  /// <q_i, k_j> of a head.
  double dot(Index b, Index h, Index i, Index j) const {
    double sum = 0;
    for (Index c = 0; c < of.width; ++c) {
      sum += qkv.at(row(b, i), q_column(h) + c) * qkv.at(row(b, j), k_column(kv_of(h)) + c);
    }
    return sum;
  }
  /// Probabilities of the keys that query i sees, and the log of their denominator.
  struct Softmax {
    std::vector<double> p;
    double lse;
  };
  Softmax softmax(Index b, Index h, Index i) const {
    Softmax result{std::vector<double>(static_cast<std::size_t>(of.causal ? i + 1 : of.tokens)), 0};
    double most = -INFINITY;
    for (std::size_t j = 0; j < result.p.size(); ++j) {
      const double factor = factors[static_cast<std::size_t>(h)];
      result.p[j] = factor * dot(b, h, i, static_cast<Index>(j));
      most = std::max(most, result.p[j]);
    }
    double sum = 0;
    for (double& one : result.p) sum += one = std::exp(one - most);
    for (double& one : result.p) one /= sum;
    result.lse = most + std::log(sum);
    return result;
  }
  /// Σ_j p_j·v_j at a column of the head.
  double o(const Softmax& soft, Index b, Index h, Index column) const {
    double sum = 0;
    for (std::size_t j = 0; j < soft.p.size(); ++j) {
      sum += soft.p[j] * qkv.at(row(b, static_cast<Index>(j)), v_column(kv_of(h)) + column);
    }
    return sum;
  }
};

/// |got - wanted| / |wanted|, number by number.
class Gap {
 public:
  void add(double got, double wanted) {
    apart_ += (got - wanted) * (got - wanted);
    all_ += wanted * wanted;
  }
  double relative() const { return std::sqrt(apart_ / all_); }

 private:
  double apart_ = 0;
  double all_ = 0;
};

}  // namespace norma::kernels
