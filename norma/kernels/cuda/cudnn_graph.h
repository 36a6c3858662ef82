// Operation graphs of cuDNN's backend API: tensors and operations are named one by one, the library
// finds an engine that runs the whole as one kernel, and the plan is executed with addresses.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <cudnn.h>

#include "norma/base/error.h"

namespace norma::kernels::cudnn {

/// cuDNN cannot, or will not, run a graph; the sentence says what it answered.
class Refusal : public Error {
  using Error::Error;
};

/// One descriptor and its owner.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  template <class T>
  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           std::span<const T> values) {
    set_raw(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set_raw(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other);
  /// Reads up to `most` values; returns how many there are.
  std::int64_t get(cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type,
                   std::int64_t most,
                   void* values) const;
  void finalize();
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  void set_raw(cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type,
               std::int64_t count,
               const void* values);
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// A graph that cuDNN knows how to run.
class Plan {
 public:
  /// Queued. addresses[i] belongs to the tensor that was made i-th; tensors in between have none.
  void execute(std::span<void* const> addresses) const;

 private:
  friend class Graph;
  std::vector<Descriptor> parts_;  // in the order in which they were made; the plan is the last
  std::vector<bool> stored_;
  void* workspace_ = nullptr;
};

using Four = std::array<std::int64_t, 4>;

/// (batch, heads, rows, columns) and the elements from one to the next of each.
struct Layout {
  Four dims;
  Four strides;
  /// The same elements with rows and columns exchanged.
  Layout transposed() const {
    return {{dims[0], dims[1], dims[3], dims[2]}, {strides[0], strides[1], strides[3], strides[2]}};
  }
  static Layout packed(const Four& dims) {
    return {dims, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}};
  }
};

/// Operations in the order in which they are called. Every method may throw Refusal.
class Graph {
 public:
  using Tensor = int;  // its place among the addresses of a plan

  Tensor stored(cudnnDataType_t type, const Layout& layout);
  /// A result that only other operations see.
  Tensor between(cudnnDataType_t type, const Layout& layout);
  /// One float, whose address is on the host.
  Tensor scalar();

  void pointwise(cudnnPointwiseMode_t mode,
                 std::initializer_list<Tensor> inputs,
                 Tensor y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT);
  /// y = its own row (axis 2) or column (axis 3), in the shape of x.
  void index(int axis, Tensor x, Tensor y);
  void multiply(Tensor a, Tensor b, Tensor c);
  void reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor y);

  /// The first engine that can, in the order of cuDNN's own advice; of those whose bits repeat.
  Plan plan() &&;

 private:
  enum class Kind { stored, between, scalar };
  Tensor add(Kind kind, cudnnDataType_t type, const Layout& layout);
  const Descriptor& at(Tensor tensor) const;
  void add_pointwise(Descriptor rule, std::span<const Tensor> inputs, Tensor y);
  void add_operation(Descriptor operation);

  std::vector<Descriptor> parts_;
  std::vector<std::size_t> tensors_;     // places in parts_
  std::vector<std::size_t> operations_;  // places in parts_
  std::vector<bool> stored_;
};

}  // namespace norma::kernels::cudnn
