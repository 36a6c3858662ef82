// Planning: building a model and walking through a step without computing anything, to learn what
// memory it takes. Buffers are reserved but never touched, so nothing is used up, and they may be
// larger than the machine; kernels and copies do nothing.
#pragma once

namespace norma {

/// Whether this thread is planning.
bool planning();

/// Plans until the end of the scope.
class PlanningScope {
 public:
  PlanningScope();
  ~PlanningScope();
  PlanningScope(const PlanningScope&) = delete;
  PlanningScope& operator=(const PlanningScope&) = delete;

 private:
  bool former_;
};

}  // namespace norma
