#include "norma/optim/job.h"

#include <algorithm>

namespace norma {

namespace {

bool is_table(ParamClass kind) {
  return kind == ParamClass::embedding || kind == ParamClass::position ||
         kind == ParamClass::class_token || kind == ParamClass::head;
}

/// What a job changes is its span of weights and copies, its gradients, its states and its numbers,
/// and no two jobs share any of these. What they could share is memory of the optimizer: jobs of a
/// batch have scratch memory of their own; norms, which all leave in one place, are found and used
/// one job after the other, before or after the step that they take together; and the weights that
/// a capped job keeps have room for one, so it is stepped alone.
bool go_together(const Job& one, const Job& other) {
  return one.rule == other.rule && one.rule->steps_together() && !one.capped && !other.capped &&
         one.span.rows == other.span.rows && one.span.cols == other.span.cols &&
         one.span.lazy == other.span.lazy &&
         one.span.tags.constraint == other.span.tags.constraint &&
         keep_of(one.span.tags) == keep_of(other.span.tags);
}

}  // namespace

std::vector<Job> jobs_of(const ParamStore& params, const OptimSpec& spec, const RuleBook& rules) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < params.params().size(); ++i) {
    const Param& param = params.params()[i];
    if (param.frozen) continue;
    const StepRule& rule = rules.rule_for(param);
    const Span span = span_of(params, i, spec);
    const bool joins = !jobs.empty() && jobs.back().rule == &rule && rule.merges();
    if (joins && merge(jobs.back().span, span)) continue;
    Job job;
    job.span = span;
    job.rule = &rule;
    job.capped = spec.angular_cap > 0 && span.tags.constraint == Constraint::unit &&
                 !is_table(span.tags.kind);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<std::vector<std::size_t>> batches_of(std::span<const Job> jobs) {
  std::vector<std::vector<std::size_t>> batches;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto fits = [&](const std::vector<std::size_t>& batch) {
      return batch.size() < kMostPlaces && go_together(jobs[batch.front()], jobs[i]);
    };
    const auto batch = std::find_if(batches.begin(), batches.end(), fits);
    if (batch == batches.end()) {
      batches.push_back({i});
    } else {
      batch->push_back(i);
    }
  }
  return batches;
}

}  // namespace norma
