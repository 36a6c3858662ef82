// Matrix products through cuBLASLt. Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ, so the factors
// change places. For every shape the library's candidates are timed once and the fastest stays
// (device/choices.h), so the bits of a shape are the same in every call and every run.
#include "norma/kernels/gemm.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/choices.h"
#include "norma/device/cuda/runtime.h"
#include "norma/device/device.h"
#include "norma/kernels/cuda/algorithm_text.h"

namespace norma::kernels {

namespace {

void check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(say("cuBLASLt: ", doing, " failed: ", cublasLtGetStatusString(status), "."));
}

template <class T>
constexpr cudaDataType_t kCudaType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kCudaType<Bf16> = CUDA_R_16BF;

struct Free {
  void operator()(cublasLtMatmulDescOpaque_t* p) const { cublasLtMatmulDescDestroy(p); }
  void operator()(cublasLtMatrixLayoutOpaque_t* p) const { cublasLtMatrixLayoutDestroy(p); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublasLtMatmulPreferenceDestroy(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Owned<cublasLtMatrixLayoutOpaque_t> layout(cudaDataType_t type, Index rows, Index cols, Index ld) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(
            &made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), ld),
        "describing a matrix");
  return Owned<cublasLtMatrixLayoutOpaque_t>(made);
}

template <class V>
void describe(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, V value) {
  check(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value),
        "describing a product");
}

/// One shape, ready to be multiplied.
struct Plan {
  Owned<cublasLtMatmulDescOpaque_t> product;
  Owned<cublasLtMatrixLayoutOpaque_t> a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
};

constexpr std::size_t kWorkspaceBytes = device::kProductWorkspaceBytes;

struct Library {
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;

  Library() {
    check(cublasLtCreate(&handle), "starting");
    workspace = device::allocate(kWorkspaceBytes);
  }
};
const Library& library() {
  static const Library* const kLibrary = new Library;  // never destroyed: the driver may be gone
  return *kLibrary;
}

template <class T, class Result>
cublasStatus_t multiply(const Plan& plan,
                        const cublasLtMatmulAlgo_t& algorithm,
                        const Gemm<T, Result>& g,
                        Result* c,
                        float beta) {
  const auto alpha = static_cast<float>(g.alpha);
  if (g.epilogue != Epilogue::none) {
    describe(plan.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.inner);
  }
  return cublasLtMatmul(library().handle,
                        plan.product.get(),
                        &alpha,
                        g.b,
                        plan.b.get(),
                        g.a,
                        plan.a.get(),
                        &beta,
                        c,
                        plan.c.get(),
                        c,
                        plan.c.get(),
                        &algorithm,
                        library().workspace,
                        kWorkspaceBytes,
                        device::stream());
}

/// Milliseconds of one product, the best of a few.
template <class T, class Result>
float timed(const Plan& plan,
            const cublasLtMatmulAlgo_t& algorithm,
            const Gemm<T, Result>& g,
            Result* scratch) {
  constexpr int kRepeats = 3;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
  device::check(cudaEventCreate(&start), "making an event");
  device::check(cudaEventCreate(&stop), "making an event");
  float best = -1;
  for (int i = 0; i <= kRepeats; ++i) {
    device::check(cudaEventRecord(start, device::stream()), "timing");
    if (multiply(plan, algorithm, g, scratch, 0.0f) != CUBLAS_STATUS_SUCCESS) break;
    device::check(cudaEventRecord(stop, device::stream()), "timing");
    device::check(cudaEventSynchronize(stop), "timing");
    float ms = 0;
    device::check(cudaEventElapsedTime(&ms, start, stop), "timing");
    if (i > 0 && (best < 0 || ms < best)) best = ms;  // the first call warms up
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return best;
}

/// Up to 256 bytes, as far as the address lets kernels of the library be used.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::uint32_t bytes = 256;
  while (address % bytes != 0) bytes /= 2;
  return bytes;
}

/// The library's candidates for a product, the likeliest to be fast first.
template <class T, class Result>
std::vector<cublasLtMatmulAlgo_t> candidates_for(const Plan& plan, const Gemm<T, Result>& g) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "describing preferences");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
          "describing preferences");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  // The library's A is our B.
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(g.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(g.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(g.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c));
  constexpr int kMost = 8;
  cublasLtMatmulHeuristicResult_t found[kMost];
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(library().handle,
                                       plan.product.get(),
                                       plan.b.get(),
                                       plan.a.get(),
                                       plan.c.get(),
                                       plan.c.get(),
                                       preference.get(),
                                       kMost,
                                       found,
                                       &count),
        "looking for a kernel");
  if (count == 0) {
    throw Error(say("cuBLASLt has no kernel for a product of ", g.m, " x ", g.k, " x ", g.n, "."));
  }
  std::vector<cublasLtMatmulAlgo_t> candidates;
  for (int i = 0; i < count; ++i) candidates.push_back(found[i].algo);
  return candidates;
}

template <class T, class Result>
cublasLtMatmulAlgo_t fastest(const std::vector<cublasLtMatmulAlgo_t>& candidates,
                             const Plan& plan,
                             const Gemm<T, Result>& g) {
  // A result that is only set may be set more than once; one that is added to may not.
  void* scratch = nullptr;
  if (g.beta != 0) {
    const auto bytes = static_cast<std::size_t>((g.m - 1) * g.ldc + g.n) * sizeof(Result);
    scratch = device::allocate(bytes);
  }
  Result* to = scratch == nullptr ? g.c : static_cast<Result*>(scratch);
  cublasLtMatmulAlgo_t best = candidates.front();
  float best_ms = -1;
  for (const cublasLtMatmulAlgo_t& candidate : candidates) {
    const float ms = timed(plan, candidate, g, to);
    if (ms > 0 && (best_ms < 0 || ms < best_ms)) {
      best_ms = ms;
      best = candidate;
    }
  }
  if (scratch != nullptr) device::release(scratch);
  return best;
}

/// A product as the choices name it: the card, the library, types, shape and alignments.
template <class T, class Result>
std::string name_of_product(const Gemm<T, Result>& g) {
  std::string name = say("product|", device::info().name, "|cublasLt ", cublasLtGetVersion(), "|");
  name += say(name_of(kDTypeOf<T>), ">", name_of(kDTypeOf<Result>), "|");
  name += say(g.trans_a ? "t" : "n", g.trans_b ? "t" : "n");
  if (g.epilogue == Epilogue::gelu) name += " gelu";
  for (const Index size : {g.m, g.n, g.k, g.lda, g.ldb, g.ldc}) name += say(" ", size);
  for (const void* place : {static_cast<const void*>(g.a),
                            static_cast<const void*>(g.b),
                            static_cast<const void*>(g.c)}) {
    name += say(" ", alignment_of(place));
  }
  return name;
}

template <class T, class Result>
cublasLtMatmulAlgo_t algorithm_for(const Plan& plan, const Gemm<T, Result>& g) {
  const std::string name = name_of_product(g);
  const std::optional<std::string> kept = device::choice(name);
  cublasLtMatmulAlgo_t algorithm{};
  if (kept && read_hex(*kept, algorithm)) return algorithm;
  const std::vector<cublasLtMatmulAlgo_t> candidates = candidates_for(plan, g);
  // Small products take microseconds either way; timing them would only add noise.
  constexpr double kWorthTiming = 1e8;
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const bool worth = candidates.size() > 1 && work >= kWorthTiming;
  algorithm = worth ? fastest(candidates, plan, g) : candidates.front();
  device::choose(name, hex(algorithm));
  return algorithm;
}

template <class T, class Result>
Plan make_plan(const Gemm<T, Result>& g) {
  Plan plan;
  cublasLtMatmulDesc_t made = nullptr;
  // f32 stays f32: TF32 would keep ten bits.
  check(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  plan.product.reset(made);
  // The library's A is our B.
  describe(made, CUBLASLT_MATMUL_DESC_TRANSA, g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  describe(made, CUBLASLT_MATMUL_DESC_TRANSB, g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (g.epilogue != Epilogue::none) {
    describe(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX);
    describe(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(g.ldc));
    describe(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.inner);
  }
  plan.a = layout(kCudaType<T>, g.trans_a ? g.m : g.k, g.trans_a ? g.k : g.m, g.lda);
  plan.b = layout(kCudaType<T>, g.trans_b ? g.k : g.n, g.trans_b ? g.n : g.k, g.ldb);
  plan.c = layout(kCudaType<Result>, g.n, g.m, g.ldc);
  plan.algorithm = algorithm_for(plan, g);
  return plan;
}

/// Plans by shape. Addresses count as far as their alignment lets a kernel be used.
template <class T, class Result>
const Plan& plan_of(const Gemm<T, Result>& g) {
  using Key = std::tuple<bool,
                         bool,
                         Epilogue,
                         Index,
                         Index,
                         Index,
                         Index,
                         Index,
                         Index,
                         std::uint32_t,
                         std::uint32_t,
                         std::uint32_t>;
  static auto* const kPlans = new std::map<Key, Plan>;
  const Key key{g.trans_a,
                g.trans_b,
                g.epilogue,
                g.m,
                g.n,
                g.k,
                g.lda,
                g.ldb,
                g.ldc,
                alignment_of(g.a),
                alignment_of(g.b),
                alignment_of(g.c)};
  const auto at = kPlans->find(key);
  if (at != kPlans->end()) return at->second;
  return kPlans->emplace(key, make_plan(g)).first->second;
}

}  // namespace

template <class T, class Result>
void run(Cuda, const Gemm<T, Result>& g) {
  const Plan& plan = plan_of(g);
  check(multiply(plan, plan.algorithm, g, g.c, static_cast<float>(g.beta)), "multiplying");
}

template void run(Cuda, const Gemm<float>& g);
template void run(Cuda, const Gemm<Bf16>& g);
template void run(Cuda, const Gemm<Bf16, float>& g);

}  // namespace norma::kernels
