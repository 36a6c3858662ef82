#include "norma/checks/problem.h"

namespace norma::checks {

std::string_view name_of(Condition condition) {
  switch (condition) {
    case Condition::plain:
      return "plain";
    case Condition::zero_gain:
      return "zero_gain";
    case Condition::constant_rows:
      return "constant_rows";
    case Condition::offset:
      return "offset";
    case Condition::huge:
      return "huge";
    case Condition::tiny:
      return "tiny";
  }
  return "?";
}

Storage storage_of(const InputSpec& spec) {
  if (spec.storage != Storage::by_role) return spec.storage;
  if (spec.role == Role::data) return Storage::values;
  return spec.shape.rank() == 1 ? Storage::vector : Storage::weight;
}

std::vector<Shape> row_sweep() {
  std::vector<Shape> sizes;
  for (const Index rows : {1, 2, 3, 5, 17}) {
    for (const Index width : {1,   2,   3,   31,  32,   33,   63,   255,  256,  257,
                              511, 512, 513, 768, 1023, 1024, 1025, 1536, 2048, 4099}) {
      sizes.push_back({rows, width});
    }
  }
  return sizes;
}

std::vector<Shape> row_condition_sizes() { return {{1, 7}, {3, 33}, {5, 257}, {40, 64}}; }

std::vector<Shape> row_gpu_sizes() { return {{65536, 768}, {16384, 1024}}; }

}  // namespace norma::checks
