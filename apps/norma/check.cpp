// norma check: every op against its f64 definition, on the user's machine.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "apps/norma/check_device.h"
#include "apps/norma/requests.h"
#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/checks/registry.h"
#include "norma/checks/run_case.h"

namespace norma::app {

namespace {

using checks::CaseId;
using checks::CaseResult;
using checks::OpCheck;

Shape parse_shape(const std::string& text) {
  Shape shape;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find('x', at), text.size());
    const std::string part = text.substr(at, end - at);
    const bool digits = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) {
      throw RequestError(say("check: a shape is written like 3x257, got ", text, "."));
    }
    shape.append(std::stoll(part));
    at = end + 1;
  }
  return shape;
}

checks::Condition parse_condition(const std::string& text) {
  using checks::Condition;
  std::vector<std::string> names;
  for (const Condition condition : {Condition::plain,
                                    Condition::zero_gain,
                                    Condition::constant_rows,
                                    Condition::offset,
                                    Condition::huge,
                                    Condition::tiny}) {
    if (name_of(condition) == text) return condition;
    names.emplace_back(name_of(condition));
  }
  throw RequestError(say(
      "check: there is no condition ", text, ". Did you mean ", nearest_word(text, names), "?"));
}

std::vector<CaseId> cases_for(const OpCheck& check, const CheckRequest& request) {
  if (!request.condition.empty()) parse_condition(request.condition);  // refuses unknown names
  if (!request.variant.empty() &&
      std::find(check.variants.begin(), check.variants.end(), request.variant) ==
          check.variants.end()) {
    throw RequestError(say("check: ",
                           check.op,
                           " has no variant ",
                           request.variant,
                           ". Did you mean ",
                           nearest_word(request.variant, check.variants),
                           "?"));
  }
  if (!request.shape.empty()) {
    const Shape size = parse_shape(request.shape);
    if (size.rank() != check.sizes.front().rank()) {
      throw RequestError(say("check: sizes of ",
                             check.op,
                             " have ",
                             check.sizes.front().rank(),
                             " dimensions (like ",
                             check.sizes.front().text(),
                             "), got ",
                             request.shape,
                             "."));
    }
    std::vector<CaseId> cases;
    for (const std::string& variant : check.variants) {
      cases.push_back({size,
                       variant,
                       request.condition.empty() ? checks::Condition::plain
                                                 : parse_condition(request.condition),
                       request.seed});
    }
    std::erase_if(cases, [&](const CaseId& id) {
      return !request.variant.empty() && id.variant != request.variant;
    });
    return cases;
  }
  std::vector<CaseId> cases = checks::cases_of(check, request.seed, request.device == "cuda");
  std::erase_if(cases, [&](const CaseId& id) {
    return (!request.variant.empty() && id.variant != request.variant) ||
           (!request.condition.empty() && name_of(id.condition) != request.condition);
  });
  if (cases.empty()) {
    throw RequestError(say("check: ",
                           check.op,
                           " is not tried under condition ",
                           request.condition,
                           "; give a shape to try it all the same."));
  }
  return cases;
}

struct Summary {
  CaseResult worst;
  std::size_t cases = 0;
  std::size_t judged = 0;    // gradients compared with differences
  std::size_t unjudged = 0;  // gradients whose differences drown in rounding
  std::vector<std::string> failures;
};

Summary check_op(const OpCheck& check, const std::vector<CaseId>& cases, bool f64) {
  Summary summary;
  for (const CaseId& id : cases) {
    CaseResult result;
    try {
      result = f64 ? run_f64_case(check, id) : run_case(check, id);
    } catch (const std::exception& error) {
      result.failure = say(check.op, ": ", error.what(), " Rerun: ", repro(check, id));
    }
    CaseResult& worst = summary.worst;
    worst.forward_error = std::max(worst.forward_error, result.forward_error);
    worst.gradient_error = std::max(worst.gradient_error, result.gradient_error);
    worst.scale_error = std::max(worst.scale_error, result.scale_error);
    worst.gradient_gap = std::max(worst.gradient_gap, result.gradient_gap);
    worst.composed_gap = std::max(worst.composed_gap, result.composed_gap);
    summary.judged += result.judged.size();
    summary.unjudged += result.unjudged.size();
    if (!result.failure.empty()) summary.failures.push_back(result.failure);
    ++summary.cases;
  }
  return summary;
}

void print_header() {
  std::printf("%-16s %6s  %-19s  %-20s  %-9s  %-8s  %-11s  %-9s  %s\n",
              "op",
              "cases",
              "f32 forward (limit)",
              "f32 gradient (limit)",
              "f32 scale",
              "f64 gap",
              "not judged",
              "composed",
              "");
}

void print_row(const OpCheck& check, const Summary& summary) {
  const checks::Limit limit = checks::f32_limit(check.kind);
  std::printf(
      "%-16s %6zu  %.1e (%.0e)      %.1e (%.0e)       %.1e    %.1e   %4zu/%-6zu  %.1e    %s\n",
      check.op.c_str(),
      summary.cases,
      summary.worst.forward_error,
      limit.forward,
      summary.worst.gradient_error,
      limit.gradient,
      summary.worst.scale_error,
      summary.worst.gradient_gap,
      summary.unjudged,
      summary.judged + summary.unjudged,
      summary.worst.composed_gap,
      summary.failures.empty() ? "ok" : "FAILED");
}

void print_json(const OpCheck& check, const Summary& summary) {
  const checks::Limit limit = checks::f32_limit(check.kind);
  JsonLine line;
  line.add("op", check.op)
      .add("cases", static_cast<Index>(summary.cases))
      .add("forward_error", summary.worst.forward_error)
      .add("forward_limit", limit.forward)
      .add("gradient_error", summary.worst.gradient_error)
      .add("gradient_limit", limit.gradient)
      .add("scale_error", summary.worst.scale_error)
      .add("scale_limit", checks::scale_limit(DType::f32))
      .add("gradient_gap_f64", summary.worst.gradient_gap)
      .add("gradients_judged", static_cast<Index>(summary.judged))
      .add("gradients_not_judged", static_cast<Index>(summary.unjudged))
      .add("composed_gap_f64", summary.worst.composed_gap)
      .add("failures", static_cast<Index>(summary.failures.size()));
  std::puts(line.text().c_str());
}

}  // namespace

int run_check(const CheckRequest& request) {
  const bool gpu = request.device == "cuda";
  if (!gpu && request.device != "cpu") {
    throw RequestError(say("check: device must be cpu or cuda, got ", request.device, "."));
  }
  const std::vector<DType> gpu_types = gpu ? device_types(request.dtype) : std::vector<DType>{};
  if (!gpu && !request.dtype.empty() && request.dtype != "f32" && request.dtype != "f64") {
    throw RequestError(say("check: dtype must be f32 or f64 on the CPU, got ", request.dtype, "."));
  }
  std::vector<const OpCheck*> chosen;
  if (request.op.empty()) {
    for (const OpCheck& check : checks::registry()) chosen.push_back(&check);
  } else {
    chosen.push_back(&checks::find_check(request.op));
  }
  std::vector<std::vector<CaseId>> planned;  // all requests are judged before anything is printed
  planned.reserve(chosen.size());
  for (const OpCheck* check : chosen) planned.push_back(cases_for(*check, request));
  if (gpu) return check_on_device({chosen, planned, gpu_types, request.json});
  const Stopwatch watch;
  std::size_t cases = 0;
  std::vector<std::string> failures;
  if (!request.json) print_header();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const OpCheck* check = chosen[i];
    const Summary summary = check_op(*check, planned[i], request.dtype == "f64");
    cases += summary.cases;
    failures.insert(failures.end(), summary.failures.begin(), summary.failures.end());
    request.json ? print_json(*check, summary) : print_row(*check, summary);
    std::fflush(stdout);
  }
  for (const std::string& failure : failures) std::fprintf(stderr, "%s\n", failure.c_str());
  if (!request.json) {
    std::printf("%zu ops, %zu cases, %zu failed, %.1f s\n",
                chosen.size(),
                cases,
                failures.size(),
                watch.seconds());
  }
  return failures.empty() ? 0 : 1;
}

}  // namespace norma::app
