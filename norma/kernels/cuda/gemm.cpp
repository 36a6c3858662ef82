// Matrix products through cuBLASLt. Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ, so the factors
// change places. For every shape the library's candidates, and our own where there is one, are
// timed once and the fastest stays (device/choices.h), so the bits of a shape are the same in every
// call and every run.
#include "norma/kernels/gemm.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include "norma/base/bf16.h"
#include "norma/base/error.h"
#include "norma/base/text.h"
#include "norma/device/choices.h"
#include "norma/device/cuda/runtime.h"
#include "norma/device/device.h"
#include "norma/device/timer.h"
#include "norma/kernels/cuda/algorithm_text.h"
#include "norma/kernels/cuda/product_weights.h"
#include "norma/kernels/fastest.h"

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
  Owned<cublasLtMatrixLayoutOpaque_t> former;  // what beta multiplies
  bool own = false;  // where it can: factors, which a plan does not know, decide that too
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

/// What beta multiplies.
template <class T, class Result>
const Result* former_of(const Gemm<T, Result>& g) {
  return g.addend != nullptr ? g.addend : g.c;
}

template <class T, class Result>
cublasStatus_t multiply(const Plan& plan,
                        const cublasLtMatmulAlgo_t& algorithm,
                        const Gemm<T, Result>& g) {
  const auto alpha = static_cast<float>(g.alpha);
  const auto beta = static_cast<float>(g.beta);
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
                        former_of(g),
                        plan.former.get(),
                        g.c,
                        plan.c.get(),
                        &algorithm,
                        library().workspace,
                        kWorkspaceBytes,
                        device::stream());
}

/// Our own product, for those that have one. False where it cannot.
template <class T, class Result>
bool multiply_own(const Gemm<T, Result>& g) {
  if constexpr (std::is_same_v<T, Bf16> && std::is_same_v<Result, float>) {
    return run_weight_product(g, library().workspace);
  } else {
    return false;
  }
}

/// In bytes, as far as it lets kernels of the library be used.
constexpr std::uint32_t kMostAlignment = 256;
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::uint32_t bytes = kMostAlignment;
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
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(former_of(g)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(g.c));
  constexpr int kMost = 8;
  cublasLtMatmulHeuristicResult_t found[kMost];
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(library().handle,
                                       plan.product.get(),
                                       plan.b.get(),
                                       plan.a.get(),
                                       plan.former.get(),
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

/// The index of the fastest candidate; the one behind the last is our own.
template <class T, class Result>
std::size_t fastest_of(const std::vector<cublasLtMatmulAlgo_t>& candidates,
                       const Plan& plan,
                       const Gemm<T, Result>& g) {
  Gemm<T, Result> trial = g;
  // A result that is only set may be set more than once; one that is added to may not.
  void* scratch = nullptr;
  if (g.beta != 0 && g.addend == nullptr) {
    trial.beta = 0;
    const std::size_t shift = reinterpret_cast<std::uintptr_t>(g.c) % kMostAlignment;
    const auto bytes = static_cast<std::size_t>((g.m - 1) * g.ldc + g.n) * sizeof(Result);
    scratch = device::allocate(bytes + shift);
    trial.c = static_cast<Result*>(scratch) + shift / sizeof(Result);
  }
  const auto queue = [&](std::size_t i) {
    if (i == candidates.size()) return multiply_own(trial);
    return multiply(plan, candidates[i], trial) == CUBLAS_STATUS_SUCCESS;
  };
  device::Timer timer;
  const std::size_t best = fastest(candidates.size() + 1, queue, timer);
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
  if (g.addend != nullptr) name += say(" plus ", g.ld_addend, " ", alignment_of(g.addend));
  for (const Index size : {g.m, g.n, g.k, g.lda, g.ldb, g.ldc}) name += say(" ", size);
  for (const void* place : {static_cast<const void*>(g.a),
                            static_cast<const void*>(g.b),
                            static_cast<const void*>(g.c)}) {
    name += say(" ", alignment_of(place));
  }
  return name;
}

/// Whether the library takes an algorithm that was read from a file for this product.
bool accepted(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t answer{};
  return cublasLtMatmulAlgoCheck(library().handle,
                                 plan.product.get(),
                                 plan.b.get(),
                                 plan.a.get(),
                                 plan.former.get(),
                                 plan.c.get(),
                                 &algorithm,
                                 &answer) == CUBLAS_STATUS_SUCCESS &&
         answer.workspaceSize <= kWorkspaceBytes;
}

/// How a plan that is otherwise ready shall multiply.
template <class T, class Result>
void choose(Plan& plan, const Gemm<T, Result>& g) {
  constexpr std::string_view kOwn = "own";  // others are algorithms of the library
  const std::string name = name_of_product(g);
  const std::optional<std::string> kept = device::choice(name);
  if (kept && read_hex(*kept, plan.algorithm) && accepted(plan, plan.algorithm)) return;
  const std::vector<cublasLtMatmulAlgo_t> candidates = candidates_for(plan, g);
  plan.algorithm = candidates.front();
  plan.own = kept && *kept == kOwn;
  if (plan.own) return;
  // Small products take microseconds either way; timing them would only add noise.
  constexpr double kWorthTiming = 1e8;
  const double work =
      static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  if (work >= kWorthTiming) {
    const std::size_t best = fastest_of(candidates, plan, g);
    plan.own = best == candidates.size();
    if (!plan.own) plan.algorithm = candidates[best];
  }
  device::choose(name, plan.own ? std::string(kOwn) : hex(plan.algorithm));
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
  plan.former = layout(kCudaType<Result>, g.n, g.m, g.addend != nullptr ? g.ld_addend : g.ldc);
  choose(plan, g);
  return plan;
}

/// Plans by shape. Addresses count as far as their alignment lets a kernel be used.
template <class T, class Result>
const Plan& plan_of(const Gemm<T, Result>& g) {
  using Key = std::array<Index, 14>;
  static auto* const kPlans = new std::map<Key, Plan>;
  const Key key{static_cast<Index>(g.trans_a),
                static_cast<Index>(g.trans_b),
                static_cast<Index>(g.epilogue),
                g.m,
                g.n,
                g.k,
                g.lda,
                g.ldb,
                g.ldc,
                alignment_of(g.a),
                alignment_of(g.b),
                alignment_of(g.c),
                g.addend != nullptr ? g.ld_addend : 0,
                g.addend != nullptr ? alignment_of(g.addend) : 0};
  const auto at = kPlans->find(key);
  if (at != kPlans->end()) return at->second;
  return kPlans->emplace(key, make_plan(g)).first->second;
}

}  // namespace

template <class T, class Result>
void run(Cuda, const Gemm<T, Result>& g) {
  const Plan& plan = plan_of(g);
  if (plan.own && multiply_own(g)) return;
  check(multiply(plan, plan.algorithm, g), "multiplying");
}

template void run(Cuda, const Gemm<float>& g);
template void run(Cuda, const Gemm<Bf16>& g);
template void run(Cuda, const Gemm<Bf16, float>& g);

}  // namespace norma::kernels
