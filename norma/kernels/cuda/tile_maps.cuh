// Arrays described for Hopper's copy engine (tile_copy.cuh), on the host.
#pragma once

#include <cstdint>

#include "norma/kernels/cuda/tile_copy_instructions.cuh"

namespace norma::kernels::tile_copy {

/// What is copied at a time. The engine swizzles its rows over as many bytes as they have.
struct Box {
  int rows = 64;
  int columns = 64;  // 64 or 32
};

/// An array of bf16 for the engine, its closest dimension first. `strides` of the others, in
/// elements. False where the driver is too old or something is not aligned to 16 bytes.
template <int kDims>
bool describe_array(const Bf16* data,
                    const Index (&sizes)[kDims],
                    const Index (&strides)[kDims - 1],
                    const int (&box)[kDims],
                    CUtensorMap& map) {
  using Encode = CUresult (*)(CUtensorMap*,
                              CUtensorMapDataType,
                              cuuint32_t,
                              void*,
                              const cuuint64_t*,
                              const cuuint64_t*,
                              const cuuint32_t*,
                              const cuuint32_t*,
                              CUtensorMapInterleave,
                              CUtensorMapSwizzle,
                              CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);
  static const auto kEncode = [] {  // the driver is not linked: a build needs no GPU
    void* found = nullptr;
    cudaDriverEntryPointQueryResult answer{};
    const cudaError_t code = cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &answer);
    const bool there = code == cudaSuccess && answer == cudaDriverEntryPointSuccess;
    return there ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  bool aligned = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  cuuint64_t size[kDims];
  cuuint64_t bytes[kDims - 1];
  cuuint32_t part[kDims];
  cuuint32_t steps[kDims];
  for (int i = 0; i < kDims; ++i) {
    size[i] = static_cast<cuuint64_t>(sizes[i]);
    part[i] = static_cast<cuuint32_t>(box[i]);
    steps[i] = 1;
    if (i == 0) continue;
    bytes[i - 1] = static_cast<cuuint64_t>(strides[i - 1]) * sizeof(Bf16);
    aligned = aligned && bytes[i - 1] % 16 == 0;
  }
  if (kEncode == nullptr || !aligned) return false;
  return kEncode(&map,
                 CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                 kDims,
                 const_cast<Bf16*>(data),
                 size,
                 bytes,
                 part,
                 steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE,
                 box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/// For copy_box() and store_box(); false as describe_array().
inline bool describe(Rows<const Bf16> all, CUtensorMap& map, const Box& of = {}) {
  return describe_array<3>(all.data,
                           {all.cols, all.rows, 1},
                           {all.stride, all.stride * all.rows},
                           {of.columns, of.rows, 1},
                           map);
}
/// For copy_head() and store_head(): `count` matrices of `rows` rows follow each other, whose
/// columns are heads.
inline bool describe_heads(
    Rows<const Bf16> all, Index width, Index rows, Index count, CUtensorMap& map) {
  return describe_array<4>(all.data,
                           {width, all.cols / width, rows, count},
                           {width, all.stride, all.stride * rows},
                           {64, 1, 64, 1},
                           map);
}

}  // namespace norma::kernels::tile_copy
