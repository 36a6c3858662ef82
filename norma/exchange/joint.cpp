#include "norma/exchange/joint.h"

#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/exchange/stored_values.h"

namespace norma::exchange {

namespace {

Tensor find(const TensorMap& ours, const std::string& name) {
  const auto at = ours.find(name);
  if (at == ours.end()) throw Error(say("the model has no tensor ", name, "."));
  return at->second;
}

/// Rows and columns of one of our tensors; a vector is one column.
struct Extent {
  Index rows = 0;
  Index cols = 1;
  bool vector = true;
};

Extent extent_of(const Tensor& tensor) {
  if (tensor.shape.rank() == 1) return {tensor.count(), 1, true};
  return {tensor.shape.rows(), tensor.shape.cols(), false};
}

Extent extent_of(const Joint& joint, const TensorMap& ours) {
  Extent whole;
  for (const Part& part : joint.parts) {
    const Extent one =
        part.name.empty() ? Extent{part.zeros, 1, true} : extent_of(find(ours, part.name));
    whole = {whole.rows + one.rows, one.cols, one.vector};
  }
  if (joint.first_rows > 0) whole.rows = joint.first_rows;
  return whole;
}

/// Calls visit(our tensor, our element, their element) for every element that is not a zero of
/// theirs alone.
template <class Visit>
void each_element(const Joint& joint, const TensorMap& ours, Visit&& visit) {
  const Extent whole = extent_of(joint, ours);
  Index first = 0;
  for (const Part& part : joint.parts) {
    if (part.name.empty()) {
      first += part.zeros;
      continue;
    }
    const Tensor tensor = find(ours, part.name);
    const Extent extent = extent_of(tensor);
    const Index head = joint.turned_head;
    for (Index r = 0; r < extent.rows && first + r < whole.rows; ++r) {
      const Index source =
          head == 0 ? r : r / head * head + r % head % (head / 2) * 2 + r % head / (head / 2);
      const Index row = first + r;
      for (Index c = 0; c < extent.cols; ++c) {
        const Index stored = joint.transposed ? c * whole.rows + row : row * extent.cols + c;
        visit(tensor, source * extent.cols + c, stored);
      }
    }
    first += extent.rows;
  }
}

template <class Use>
void with_elements(const Tensor& tensor, Use&& use) {
  if (tensor.dtype == DType::f64) {
    use(tensor.as<double>());
  } else {
    use(tensor.as<float>());
  }
}

}  // namespace

TensorMap tensors_of(Gpt& model) {
  TensorMap map;
  for (const NamedTensor& named : model.tensors()) map.emplace(named.name, named.tensor);
  return map;
}

io::TensorSpec stored_spec(const Joint& joint, const TensorMap& ours, const io::StoredType& type) {
  const Extent whole = extent_of(joint, ours);
  io::TensorSpec spec;
  spec.name = joint.theirs;
  spec.type = &type;
  spec.shape = {static_cast<std::uint64_t>(whole.rows)};
  if (!whole.vector) spec.shape.push_back(static_cast<std::uint64_t>(whole.cols));
  if (joint.transposed) std::swap(spec.shape.front(), spec.shape.back());
  return spec;
}

std::vector<std::byte> gather(const Joint& joint,
                              const TensorMap& ours,
                              const io::StoredType& type) {
  const std::size_t size = type.bits / 8;
  std::vector<std::byte> bytes(io::bytes_of(stored_spec(joint, ours, type)));
  each_element(joint, ours, [&](const Tensor& tensor, Index from, Index to) {
    with_elements(tensor, [&](const auto* values) {
      store_value(type,
                  static_cast<double>(values[from]),
                  bytes.data() + static_cast<std::size_t>(to) * size);
    });
  });
  return bytes;
}

void scatter(const Joint& joint,
             const TensorMap& ours,
             const io::StoredType& type,
             io::Bytes bytes) {
  const std::size_t size = type.bits / 8;
  each_element(joint, ours, [&](const Tensor& tensor, Index to, Index from) {
    with_elements(tensor, [&](auto* values) {
      using Value = std::remove_reference_t<decltype(*values)>;
      values[to] = static_cast<Value>(
          stored_value(type, bytes.data() + static_cast<std::size_t>(from) * size));
    });
  });
}

}  // namespace norma::exchange
