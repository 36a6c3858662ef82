#include "norma/autograd/derivatives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "norma/base/text.h"
#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"

namespace norma {

namespace {

// Relative step: truncation is of order step⁴, rounding 1e-16 / step.
constexpr double kStep = 1e-4;

double largest(const Tensor& t) {
  double most = 0;
  for (const double x : t.elements<const double>()) most = std::max(most, std::abs(x));
  return most;
}

/// Moves the leaves along their directions; puts the values back in the end.
class Moves {
 public:
  explicit Moves(std::span<const Direction> directions) : directions_(directions) {
    double values = 0;
    double steps = 0;
    for (const Direction& d : directions) {
      if (d.leaf->value.dtype != DType::f64 || d.along.dtype != DType::f64) {
        throw RequestError(say("products with derivatives are differences and need f64, got ",
                               name_of(d.leaf->value.dtype),
                               "."));
      }
      if (!d.leaf->needs_grad) {
        throw RequestError("products with derivatives need leaves that want a gradient.");
      }
      if (!(d.along.shape == d.leaf->value.shape)) {
        throw ShapeError(
            "derivatives", "a direction", d.leaf->value.shape.text(), d.along.shape.text());
      }
      kept_.emplace_back(d.leaf->value.shape, DType::f64);
      copy(d.leaf->value, kept_.back().tensor);
      values = std::max(values, largest(d.leaf->value));
      steps = std::max(steps, largest(d.along));
    }
    unit_ = steps == 0 ? 0 : kStep * (values == 0 ? 1 : values) / steps;
  }
  ~Moves() { to(0); }
  Moves(const Moves&) = delete;
  Moves& operator=(const Moves&) = delete;

  void to(double units) {
    for (std::size_t i = 0; i < directions_.size(); ++i) {
      copy(kept_[i].tensor, directions_[i].leaf->value);
      if (units != 0) add_scaled(directions_[i].along, units * unit_, directions_[i].leaf->value);
    }
  }
  double unit() const { return unit_; }

 private:
  std::span<const Direction> directions_;
  std::vector<OwnedTensor> kept_;
  double unit_ = 0;
};

/// Weights of f(x + k·h·v) for the slope along v, times h.
struct Point {
  double at;
  double weight;
};
constexpr std::array kPoints = {
    Point{1, 8.0 / 12}, Point{-1, -8.0 / 12}, Point{2, -1.0 / 12}, Point{-2, 1.0 / 12}};

}  // namespace

void jacobian_vector(Tape& tape,
                     const TapeFunction& f,
                     std::span<const Direction> directions,
                     const Tensor& out) {
  fill(out, 0);
  Moves moves(directions);
  if (moves.unit() == 0) return;
  for (const Point& point : kPoints) {
    moves.to(point.at);
    tape.reset();
    const Var y = f(tape);
    if (!(y.shape() == out.shape)) {
      throw ShapeError("jacobian_vector", "out", y.shape().text(), out.shape.text());
    }
    add_scaled(y.value(), point.weight / moves.unit(), out);
  }
}

void hessian_vector(Tape& tape,
                    const TapeFunction& f,
                    std::span<const Direction> directions,
                    std::span<const Tensor> outs) {
  if (outs.size() != directions.size()) {
    throw RequestError(say("hessian_vector: ",
                           directions.size(),
                           " directions need as many outs, "
                           "got ",
                           outs.size(),
                           "."));
  }
  for (const Tensor& out : outs) fill(out, 0);
  Moves moves(directions);
  if (moves.unit() == 0) return;
  for (const Point& point : kPoints) {
    moves.to(point.at);
    tape.reset();
    for (const Direction& d : directions) d.leaf->fresh = true;
    tape.backward(f(tape));
    for (std::size_t i = 0; i < directions.size(); ++i) {
      if (directions[i].leaf->fresh) fill(directions[i].leaf->grad, 0);
      add_scaled(directions[i].leaf->grad, point.weight / moves.unit(), outs[i]);
    }
  }
}

}  // namespace norma
