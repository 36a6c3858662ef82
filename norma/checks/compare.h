// What two runs of a problem have in common: errors against the truth, bits, and the sentences that
// say where they part.
#pragma once

#include <initializer_list>
#include <string>

#include "norma/checks/instance.h"

namespace norma::checks {

/// max |got − want| / (|want| + max(rms(want), floor)); infinity where got is not finite.
double tensor_error(const Tensor& got, const Tensor& want, double floor = 0);

/// The factor by which got is want. Rounding errors of either sign cancel in it, so it sees a wrong
/// scale that is far smaller than the rounding of one element.
struct Scale {
  double factor = 1;       // ⟨got, want⟩ / ⟨want, want⟩
  double uncertainty = 0;  // a standard deviation of what independent errors do to it
  double terms = 0;        // how many elements carry it: ⟨want, want⟩² / Σ want⁴
};
Scale scale_between(const Tensor& got, const Tensor& want);

/// Forward and backward, from cleared gradients.
void run_both(Instance& at, const Problem::Function& f);

/// Of the tensors that can be judged, the one whose factor is furthest from 1.
struct WorstScale {
  double gap = 0;  // |factor − 1|
  double limit = 0;
  double factor = 1;
  std::string tensor;  // "output 0"
};

struct Errors {
  double forward = 0;
  double gradient = 0;
  double parameter = 0;  // of gradients kept wider than the data
  WorstScale scale = {};
};
/// `cancels` as in OpCheck; `dtype` is the type under test.
Errors errors_between(const Instance& got, const Instance& want, bool cancels, DType dtype);

bool same_bits(const Tensor& a, const Tensor& b);
/// Empty when outputs and gradients of both have the same bits, else which one differs.
std::string bit_difference(const Instance& a, const Instance& b);

// Each empty when all is well.
std::string over(std::string_view what, double value, double limit);
std::string errors_over(std::string_view suffix, const Errors& errors, const Limit& limit);
std::string scale_over(std::string_view suffix, const WorstScale& scale);
/// Backward twice on one tape doubles every gradient (to rounding: products add in blocks).
std::string twice_failure(Instance& at,
                          const Problem& problem,
                          const Instance& once,
                          const Limit& limit);
std::string gap_failure(const Instance& strided, const Problem& problem);

std::string first_of(std::initializer_list<std::string> candidates);
/// "rms_norm: failure. Rerun: command"
std::string failure_text(std::string_view op, std::string_view failure, std::string_view command);

}  // namespace norma::checks
