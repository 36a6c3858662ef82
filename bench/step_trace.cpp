// A library that writes down when every kernel and copy of a program began and ended, at the clocks
// that the card really runs at:
//   CUDA_INJECTION64_PATH=libstep_trace.so STEP_TRACE=trace.tsv norma bench train …
// A line is: start, end (ns), grid or bytes, threads of a block, name. bench/step_table.py reads
// it; `bench/device.sh breakdown` does all of it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include <cupti.h>

namespace {

/// Opened when the program starts CUDA.
std::ofstream& trace() {
  static std::ofstream file;
  return file;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  constexpr std::size_t kAlignment = 8;  // CUPTI asks for it
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBytes));
  *bytes = *buffer == nullptr ? 0 : kBytes;
  *most_records = 0;  // as many as there is room for
}

template <class Record>
void write(const Record& record, const std::string& size, int threads, const char* name) {
  trace() << record.start << '\t' << record.end << '\t' << size << '\t' << threads << '\t' << name
          << '\n';
}

void write(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    const std::string grid = std::to_string(kernel.gridX) + ',' + std::to_string(kernel.gridY) +
                             ',' + std::to_string(kernel.gridZ);
    write(kernel, grid, kernel.blockX * kernel.blockY * kernel.blockZ, kernel.name);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
    write(copy, std::to_string(copy.bytes), 0, "copy");
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    write(set, std::to_string(set.bytes), 0, "set");
  }
}

void CUPTIAPI take_buffer(CUcontext /*context*/,
                          std::uint32_t /*stream*/,
                          std::uint8_t* buffer,
                          std::size_t /*bytes*/,
                          std::size_t written) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, written, &record) == CUPTI_SUCCESS) write(*record);
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  trace().close();
}

}  // namespace

/// CUDA looks for this name and calls it before anything else; 1 is success.
// NOLINTNEXTLINE(readability-identifier-naming): CUDA's word
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("STEP_TRACE");
  trace().open(path == nullptr ? "step_trace.tsv" : path);
  if (!trace()) {
    std::fputs("step_trace: cannot write the file that STEP_TRACE names\n", stderr);
    return 0;
  }
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto& [kind, what] : {std::pair{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
                                   std::pair{CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},
                                   std::pair{CUPTI_ACTIVITY_KIND_MEMSET, "fills"}}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) {
      std::fprintf(stderr, "step_trace: CUPTI does not record %s here\n", what);
    }
  }
  std::atexit(finish);
  return 1;
}
