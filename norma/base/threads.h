// How many threads the CPU kernels use. One pool (OpenMP's) serves Norma and oneDNN, so cores are
// never oversubscribed.
#pragma once

namespace norma {

int thread_count();
void set_thread_count(int count);
/// Cores this process may run on.
int core_count();

/// Sets a thread count for a scope and restores the former one.
class ThreadScope {
 public:
  explicit ThreadScope(int count) : former_(thread_count()) { set_thread_count(count); }
  ~ThreadScope() { set_thread_count(former_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int former_;
};

}  // namespace norma
