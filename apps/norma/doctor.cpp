// norma doctor: what this build and this machine have, and what will be slow.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "apps/norma/requests.h"
#include "norma/base/build_info.h"
#include "norma/base/json_line.h"
#include "norma/base/text.h"
#include "norma/base/threads.h"
#include "norma/checks/ceilings.h"
#include "norma/device/device.h"
#include "norma/kernels/gemm.h"
#include "norma/tensor/buffer.h"

namespace norma::app {

namespace {

/// The instruction sets that matter to us, as this CPU has them.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) sets.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) sets.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) sets.emplace_back("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) sets.emplace_back("avx512bf16");
  return sets;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += say(all.empty() ? "" : " ", word);
  return all.empty() ? "none beyond x86-64" : all;
}

std::string gpu_name() {
  if (!device::available()) return "none that this build can use";
  const device::Info gpu = device::info();
  return say(gpu.name,
             ", ",
             human_bytes(static_cast<double>(gpu.free_bytes)),
             " free of ",
             human_bytes(static_cast<double>(gpu.total_bytes)),
             ", driver ",
             gpu.driver);
}

struct Finding {
  std::string name;
  std::string value;
};

/// Floating-point operations a core should do per nanosecond at the very least when its widest
/// vectors are used well (two 256-bit multiply-adds at 1.5 GHz).
constexpr double kSlowGflopsPerThread = 48;

std::vector<std::string> warnings(double gemm_gflops) {
  std::vector<std::string> list;
  __builtin_cpu_init();
  if (std::string(build::kOneDnn).empty()) {
    list.emplace_back(
        "this build has no oneDNN: products go through Eigen and are slower; install "
        "libdnnl-dev and build again.");
  }
  if (!build::kNative && __builtin_cpu_supports("avx512f")) {
    list.emplace_back(
        "this build is for x86-64-v3 although the CPU has AVX-512: a source build with "
        "NORMA_NATIVE=ON is faster here.");
  }
  if (thread_count() > core_count()) {
    list.push_back(say("OMP_NUM_THREADS asks for ",
                       thread_count(),
                       " threads on ",
                       core_count(),
                       " cores: they will wait for each other."));
  }
  if (thread_count() < core_count()) {
    list.push_back(say("only ",
                       thread_count(),
                       " of ",
                       core_count(),
                       " cores are used; OMP_NUM_THREADS sets it."));
  }
  if (std::string(build::kBuildType) == "Debug" || !std::string(build::kSanitizers).empty()) {
    list.emplace_back("this is a debugging build: correct, but many times slower.");
  }
  if (gemm_gflops < kSlowGflopsPerThread * thread_count()) {
    list.push_back(say("products reach only ",
                       fixed(gemm_gflops, 0),
                       " GFLOP/s on ",
                       thread_count(),
                       " threads: another program may be using the cores."));
  }
  return list;
}

}  // namespace

int run_doctor(const DoctorRequest& request) {
  const double gemm = checks::measure_gemm_peak();
  const double copy = checks::measure_copy_bandwidth();
  const auto present = [](const char* version, const char* absent) {
    return *version == '\0' ? std::string(absent) : std::string(version);
  };
  const std::vector<Finding> findings = {
      {"norma", say(build::kVersion, " (", build::kCommit, build::kDirty ? ", changed)" : ")")},
      {"compiler", say(build::kCompiler, ", ", build::kBuildType)},
      {"compiled for", build::kArchFlags},
      {"cpu", cpu_name()},
      {"instruction sets", joined(instruction_sets())},
      {"threads", say(thread_count(), " of ", core_count(), " cores")},
      {"memory", human_bytes(static_cast<double>(machine_memory()))},
      {"products", say(kernels::gemm_library(), ", ", fixed(gemm, 0), " GFLOP/s in f32")},
      {"copy", say(fixed(copy, 1), " GB/s")},
      {"cuda", present(build::kCuda, "not in this build")},
      {"gpu", gpu_name()},
      {"mpi", present(build::kMpi, "not in this build")},
  };
  const std::vector<std::string> slow = warnings(gemm);
  if (request.json) {
    JsonLine line;
    for (const Finding& finding : findings) line.add(finding.name, finding.value);
    line.add("gemm_gflops", gemm).add("copy_gbs", copy);
    for (std::size_t i = 0; i < slow.size(); ++i) line.add(say("warning_", i), slow[i]);
    std::puts(line.text().c_str());
    return 0;
  }
  for (const Finding& finding : findings) {
    std::printf("%-17s %s\n", finding.name.c_str(), finding.value.c_str());
  }
  for (const std::string& sentence : slow) std::printf("slow: %s\n", sentence.c_str());
  if (slow.empty()) std::puts("nothing here will be slow for want of a setting.");
  return 0;
}

}  // namespace norma::app
