// A small store with every kind of parameter, and optimizers compared with plain loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "norma/nn/param_store.h"
#include "norma/optim/constraints.h"
#include "norma/optim/optimizer.h"
#include "norma/tensor/plain.h"
#include "tests/support/values.h"

namespace norma::test {

/// What the matrices of the zoo must keep.
enum class Cage { open, spheres };

struct Zoo {
  /// In an open cage hidden matrices may still have another constraint.
  explicit Zoo(DType dtype,
               Cage cage = Cage::open,
               Index width = 12,
               Device device = {},
               Constraint hidden = Constraint::free,
               Masters masters = Masters::f32) {
    const Constraint unit = cage == Cage::spheres ? Constraint::unit : Constraint::free;
    const bool decay = cage == Cage::open;
    const auto tags = [&](ParamClass kind, VectorAxis axis = VectorAxis::rows) {
      const bool special = cage == Cage::open && is_hidden_matrix(kind);
      return ParamTags{
          .kind = kind, .decay = decay, .constraint = special ? hidden : unit, .axis = axis};
    };
    params.add({"embedding", {17, width}, tags(ParamClass::embedding)});
    params.add({"gain", {width}, {.kind = ParamClass::gain, .decay = false}});
    params.add({"scale", {width}, {.kind = ParamClass::scale, .decay = false, .lr_scale = 0.25}});
    params.add_fused({{"query", {width, width}, tags(ParamClass::query)},
                      {"key", {width, width}, tags(ParamClass::key)}});
    params.add({"out", {width, 2 * width}, tags(ParamClass::attn_out, VectorAxis::columns)});
    params.add({"up", {4 * width, width}, tags(ParamClass::ffn_up)});
    params.add({"head", {17, width}, tags(ParamClass::head)});
    params.allocate(dtype, device, masters);
    std::uint64_t stream = 100;
    for (const Param& param : params.params()) draw_into(params.value(param), stream++, 0.5);
    apply_constraints(params);
    params.freeze("key");
  }
  /// New random gradients of both signs; frozen parameters have one too, which nobody may use.
  void draw(std::uint64_t step) {
    std::uint64_t stream = 1000 * step;
    for (const Param& param : params.params()) draw_into(params.grad(param), stream++, 1);
  }
  /// Normals, drawn on the host: the same on every device.
  static void draw_into(const Tensor& to, std::uint64_t stream, double spread) {
    copy(normals(to.shape, to.dtype, stream, spread).tensor, to);
  }
  std::vector<double> values(const std::string& name) const {
    return list(params.value(params.find(name)));
  }
  std::vector<double> grads(const std::string& name) const {
    return list(params.grad(params.find(name)));
  }
  /// Of a tensor on any device.
  static std::vector<double> list(const Tensor& t) {
    const OwnedTensor home = host_copy(t);
    std::vector<double> all;
    for_each_place(t.shape, [&](Index r, Index c) { all.push_back(value_at(home.tensor, r, c)); });
    return all;
  }
  ParamStore params;
};

inline double limit_of(DType dtype) { return dtype == DType::f64 ? 1e-12 : 3e-6; }

}  // namespace norma::test
