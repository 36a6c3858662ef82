#include "norma/kernels/dropout.h"

namespace norma::kernels {

namespace {

template <class T>
void put_kept(T& slot, T value, bool kept, const DropRule& rule, Into into) {
  const T result = kept ? value * static_cast<T>(rule.scale) : T{0};
  slot = into == Into::add ? slot + result : result;
}

}  // namespace

template <class T>
void run(Ref, const Dropout<T>& a) {
  const DropRule rule = a.rule.at_step();
  for (Index r = 0; r < a.from.rows; ++r) {
    for (Index c = 0; c < a.from.cols; ++c) {
      const Index in_group = c % kDropGroup;
      const std::uint64_t position = drop_group_position(rule.first + r, a.from.cols, c) +
                                     static_cast<std::uint64_t>(in_group % kDropLanes);
      const RandomBlock block = random_block(rule.key, position);
      const std::uint32_t word = block[static_cast<std::size_t>(in_group / kDropLanes)];
      put_kept(a.to(r, c), a.from(r, c), word >= rule.threshold, rule, a.into);
    }
  }
}

template <class T>
void run(Ref, const DropPath<T>& a) {
  const DropRule rule = a.rule.at_step();
  for (Index r = 0; r < a.from.rows; ++r) {
    const auto sample = static_cast<std::uint64_t>(rule.first + r / a.rows_per_sample);
    const bool kept = random_word(rule.key, sample) >= rule.threshold;
    for (Index c = 0; c < a.from.cols; ++c) {
      put_kept(a.to(r, c), a.from(r, c), kept, rule, a.into);
    }
  }
}

template void run(Ref, const Dropout<float>&);
template void run(Ref, const Dropout<double>&);
template void run(Ref, const DropPath<float>&);
template void run(Ref, const DropPath<double>&);

}  // namespace norma::kernels
