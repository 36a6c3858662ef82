// The angles of a problem, in every type and place that one of its runs asks for.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "norma/base/bf16.h"
#include "norma/ops/rope.h"

namespace norma::checks {

class RopeTables {
 public:
  RopeTables(RopeSpec spec, Index positions) : spec_(spec), positions_(positions) {}

  /// The table for x; made when it is first asked for.
  const RopeTable& fit(Var x) {
    const DType dtype = wide(x.dtype());
    const Device device = x.value().device;
    std::unique_ptr<RopeTable>& table = made_[{dtype, device.kind}];
    if (!table) table = std::make_unique<RopeTable>(spec_, positions_, dtype, device);
    return *table;
  }

 private:
  RopeSpec spec_;
  Index positions_;
  std::map<std::pair<DType, DeviceKind>, std::unique_ptr<RopeTable>> made_;
};

}  // namespace norma::checks
