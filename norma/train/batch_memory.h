// The ids of a batch where the model reads them, with the number of the step. The host writes them;
// for a GPU they are copied over whole.
#pragma once

#include "norma/tensor/buffer.h"
#include "norma/tensor/plain.h"
#include "norma/tensor/planning.h"

namespace norma {

class BatchMemory {
 public:
  BatchMemory() = default;
  BatchMemory(Index rows, Index context, Device device)
      : rows_(rows), context_(context), host_({2 * rows * context + 1}, DType::i32) {
    if (device.kind != DeviceKind::cpu)
      there_ = OwnedTensor(host_.tensor.shape, DType::i32, device);
  }

  Index rows() const { return rows_; }
  Index context() const { return context_; }
  Tensor ids() const { return ids(0, rows_); }          // (rows, context)
  Tensor targets() const { return targets(0, rows_); }  // (rows·context)
  Tensor step() const { return step_in(whole()); }      // (1)
  /// Of sequences [first, first + count).
  Tensor ids(Index first, Index count) const { return ids_in(whole(), first, count); }
  Tensor targets(Index first, Index count) const { return targets_in(whole(), first, count); }
  std::size_t bytes() const { return whole().bytes(); }

  /// write(ids, targets) fills memory of the host; what it wrote is then where the model reads.
  template <class Write>
  void fill(Write&& write, Index step = 0) {
    const Tensor& host = host_.tensor;
    write(ids_in(host, 0, rows_), targets_in(host, 0, rows_));
    set_value(step_in(host), 0, 0, static_cast<double>(step));
    if (there_.tensor && !planning()) copy(host, there_.tensor);
  }

 private:
  const Tensor& whole() const { return there_.tensor ? there_.tensor : host_.tensor; }
  static Tensor part(const Tensor& of, Index first, Shape shape) {
    return Tensor(of.as<std::int32_t>() + first, shape, DType::i32, of.device);
  }
  Tensor ids_in(const Tensor& of, Index first, Index count) const {
    return part(of, first * context_, {count, context_});
  }
  Tensor targets_in(const Tensor& of, Index first, Index count) const {
    return part(of, (rows_ + first) * context_, {count * context_});
  }
  Tensor step_in(const Tensor& of) const { return part(of, 2 * rows_ * context_, {1}); }

  Index rows_ = 0;
  Index context_ = 0;
  OwnedTensor host_;
  OwnedTensor there_;  // empty where the model runs on the host
};

}  // namespace norma
