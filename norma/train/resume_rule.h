// What may change between the sittings of one run.
#pragma once

#include "norma/train/recipe.h"

namespace norma {

/// Throws a RequestError that names every setting of `now` that differs from the recipe the run was
/// started with, unless it only decides what is looked at, kept or written, or how the same step is
/// computed. More steps are allowed where the schedule does not look ahead to the last one.
void require_same_run(const std::string& run, const Recipe& started, const Recipe& now);

}  // namespace norma
