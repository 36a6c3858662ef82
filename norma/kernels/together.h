// Several runs of one kernel as one. A small matrix does not fill a GPU, and every launch waits for
// the last block of the one before it; hundreds of them in a row cost more than their memory.
#pragma once

namespace norma::kernels {

/// Arguments travel as parameters of a kernel, of which there are 4 KiB; what else a kernel is told
/// has the rest.
inline constexpr int kMostTogether = 40;

/// Arguments that differ in where they point alone. No run writes what another one reads or writes.
template <class Args>
struct Together {
  static_assert(sizeof(Args) * kMostTogether <= 4000);
  Args each[kMostTogether];
  int count = 0;
  /// At most kMostTogether: who makes a batch sees to it.
  void add(const Args& args) { each[count++] = args; }
};

/// One after the other, for whoever has no launches to save.
template <class Who, class Args>
void run(Who who, const Together<Args>& all) {
  for (int i = 0; i < all.count; ++i) run(who, all.each[i]);
}

}  // namespace norma::kernels
