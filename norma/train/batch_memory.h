// The ids of a batch where the model reads them. The host writes them; for a GPU they are copied
// over whole.
#pragma once

#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

class BatchMemory {
 public:
  BatchMemory() = default;
  BatchMemory(Index rows, Index context, Device device)
      : host_ids_({rows, context}, DType::i32), host_targets_({rows * context}, DType::i32) {
    if (device.kind == DeviceKind::cpu) return;
    ids_ = OwnedTensor({rows, context}, DType::i32, device);
    targets_ = OwnedTensor({rows * context}, DType::i32, device);
  }

  Index rows() const { return host_ids_.tensor.shape.rows(); }
  Index context() const { return host_ids_.tensor.shape.cols(); }
  const Tensor& ids() const { return there(ids_, host_ids_); }              // (rows, context)
  const Tensor& targets() const { return there(targets_, host_targets_); }  // (rows·context)
  /// Sequences [first, first + count).
  Tensor ids(Index first, Index count) const {
    return part(ids(), first * context(), {count, context()});
  }
  Tensor targets(Index first, Index count) const {
    return part(targets(), first * context(), {count * context()});
  }
  std::size_t bytes() const { return ids().bytes() + targets().bytes(); }

  /// write(ids, targets) fills memory of the host; what it wrote is then where the model reads.
  template <class Write>
  void fill(Write&& write) {
    write(host_ids_.tensor, host_targets_.tensor);
    if (!ids_.tensor || planning()) return;
    copy(host_ids_.tensor, ids_.tensor);
    copy(host_targets_.tensor, targets_.tensor);
  }

 private:
  static const Tensor& there(const OwnedTensor& on_device, const OwnedTensor& on_host) {
    return on_device.tensor ? on_device.tensor : on_host.tensor;
  }
  static Tensor part(const Tensor& of, Index first, Shape shape) {
    auto* data = of.as<std::int32_t>() + first;
    return Tensor(data, shape, DType::i32, of.device);
  }

  OwnedTensor host_ids_;
  OwnedTensor host_targets_;
  OwnedTensor ids_;  // empty where the model runs on the host
  OwnedTensor targets_;
};

}  // namespace norma
