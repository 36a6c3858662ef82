// In place of the page of this name: matrices as the host's copy engine knows them.
#pragma once

#include "norma/kernels/cuda/tile_copy_instructions.cuh"

namespace norma::kernels::tile_copy {

struct Box {
  int rows = 64;
  int columns = 64;
};

inline bool describe(Rows<const Bf16> all, CUtensorMap& map, const Box& of = {}) {
  map = {.data = const_cast<Bf16*>(all.data),
         .width = all.cols,
         .heads = 1,
         .rows = all.rows,
         .count = 1,
         .stride = all.stride,
         .box_rows = of.rows,
         .box_columns = of.columns};
  return true;
}

inline bool describe_heads(
    Rows<const Bf16> all, Index width, Index rows, Index count, CUtensorMap& map) {
  map = {.data = const_cast<Bf16*>(all.data),
         .width = width,
         .heads = all.cols / width,
         .rows = rows,
         .count = count,
         .stride = all.stride};
  return true;
}

}  // namespace norma::kernels::tile_copy
