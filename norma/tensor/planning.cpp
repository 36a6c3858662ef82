#include "norma/tensor/planning.h"

namespace norma {

namespace {
bool& planning_now() {
  thread_local bool now = false;
  return now;
}
}  // namespace

bool planning() { return planning_now(); }

PlanningScope::PlanningScope() : former_(planning_now()) { planning_now() = true; }
PlanningScope::~PlanningScope() { planning_now() = former_; }

}  // namespace norma
