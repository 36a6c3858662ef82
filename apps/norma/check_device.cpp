#include "apps/norma/check_device.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "norma/base/clock.h"
#include "norma/base/error.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/checks/device_case.h"
#include "norma/device/device.h"

namespace norma::app {

namespace {

using checks::CaseId;
using checks::CaseResult;
using checks::Limit;
using checks::OpCheck;

/// The worst of one op in one type.
struct Column {
  DType dtype = DType::f32;
  double forward = 0;
  double gradient = 0;
  double parameter = 0;
  double scale = 0;
  std::vector<std::string> failures = {};
};

Column check_type(const OpCheck& check, const std::vector<CaseId>& cases, DType dtype) {
  Column worst{.dtype = dtype};
  for (const CaseId& id : cases) {
    CaseResult result;
    try {
      result = run_device_case(check, id, dtype);
    } catch (const std::exception& error) {
      result.failure =
          say(check.op, ": ", error.what(), " Rerun: ", device_repro(check, id, dtype));
    }
    worst.forward = std::max(worst.forward, result.forward_error);
    worst.gradient = std::max(worst.gradient, result.gradient_error);
    worst.parameter = std::max(worst.parameter, result.parameter_error);
    worst.scale = std::max(worst.scale, result.scale_error);
    if (!result.failure.empty()) worst.failures.push_back(result.failure);
  }
  return worst;
}

std::string beside_limit(double error, double limit) {
  return say(scientific(error, 1), " (", scientific(limit, 0), ")");
}

void print_header(const std::vector<DType>& types) {
  std::printf("%-16s %6s", "op", "cases");
  for (const DType dtype : types) {
    const std::string name(name_of(dtype));
    std::printf("  %-20s  %-21s",
                say(name, " forward (limit)").c_str(),
                say(name, " gradient (limit)").c_str());
    if (dtype == DType::bf16) std::printf("  %-18s", "parameter (limit)");
    std::printf("  %-7s", "scale");
  }
  std::printf("\n");
}

void print_row(const OpCheck& check, std::size_t cases, const std::vector<Column>& columns) {
  std::printf("%-16s %6zu", check.op.c_str(), cases);
  bool ok = true;
  for (const Column& column : columns) {
    const Limit limit = limit_of(check.kind, column.dtype, check.roundings);
    std::printf("  %-20s  %-21s",
                beside_limit(column.forward, limit.forward).c_str(),
                beside_limit(column.gradient, limit.gradient).c_str());
    if (column.dtype == DType::bf16) {
      std::printf("  %-18s", beside_limit(column.parameter, limit.parameter).c_str());
    }
    std::printf("  %.1e", column.scale);
    ok = ok && column.failures.empty();
  }
  std::printf("  %s\n", ok ? "ok" : "FAILED");
}

void print_json(const OpCheck& check, std::size_t cases, const Column& column) {
  const Limit limit = limit_of(check.kind, column.dtype, check.roundings);
  JsonLine line;
  line.add("op", check.op)
      .add("device", "cuda")
      .add("dtype", std::string(name_of(column.dtype)))
      .add("cases", static_cast<Index>(cases))
      .add("forward_error", column.forward)
      .add("forward_limit", limit.forward)
      .add("gradient_error", column.gradient)
      .add("gradient_limit", limit.gradient);
  if (column.dtype == DType::bf16) {
    line.add("parameter_error", column.parameter).add("parameter_limit", limit.parameter);
  }
  line.add("scale_error", column.scale).add("scale_limit", checks::scale_limit(column.dtype));
  line.add("failures", static_cast<Index>(column.failures.size()));
  std::puts(line.text().c_str());
}

}  // namespace

std::vector<DType> device_types(const std::string& dtype) {
  if (dtype.empty() || dtype == "both") return {DType::f32, DType::bf16};
  if (dtype == "f32") return {DType::f32};
  if (dtype == "bf16") return {DType::bf16};
  throw RequestError(say("check: dtype must be f32, bf16 or both on a GPU, got ", dtype, "."));
}

int check_on_device(const DevicePlan& plan) {
  const device::Info gpu = device::info();
  const Stopwatch watch;
  std::size_t cases = 0;
  std::vector<std::string> failures = {};
  if (!plan.json) {
    std::printf("%s, driver %s\n", gpu.name.c_str(), gpu.driver.c_str());
    print_header(plan.types);
  }
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const OpCheck& check = *plan.ops[i];
    std::vector<Column> columns;
    for (const DType dtype : plan.types) {
      columns.push_back(check_type(check, plan.cases[i], dtype));
      const Column& column = columns.back();
      failures.insert(failures.end(), column.failures.begin(), column.failures.end());
      cases += plan.cases[i].size();
      if (plan.json) print_json(check, plan.cases[i].size(), column);
    }
    if (!plan.json) print_row(check, plan.cases[i].size(), columns);
    std::fflush(stdout);
  }
  for (const std::string& failure : failures) std::fprintf(stderr, "%s\n", failure.c_str());
  if (!plan.json) {
    std::printf("%zu ops, %zu cases, %zu failed, %.1f s\n",
                plan.ops.size(),
                cases,
                failures.size(),
                watch.seconds());
  }
  return failures.empty() ? 0 : 1;
}

}  // namespace norma::app
