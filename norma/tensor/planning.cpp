#include "norma/tensor/planning.h"

namespace norma {

namespace {
thread_local bool planning_now = false;
}  // namespace

bool planning() { return planning_now; }

PlanningScope::PlanningScope() : former_(planning_now) { planning_now = true; }
PlanningScope::~PlanningScope() { planning_now = former_; }

}  // namespace norma
