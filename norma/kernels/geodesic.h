// Kernels of geodesic; the formulas and the contract are in norma/ops/geodesic.h.
#pragma once

#include <cstdint>

#include "norma/base/bf16.h"
#include "norma/base/into.h"
#include "norma/kernels/exec.h"
#include "norma/kernels/rows.h"

namespace norma::kernels {

enum class GeodesicRule : std::uint8_t { lerp, slerp, riem };

/// Below this sine the quotients of slerp are replaced: by their series near 0, by lerp near π.
inline constexpr double kSmallSine = 1e-4;

/// What forward keeps of a row. In f64 also for f32 rows: b̂ − a is a difference of near equals
/// when the branch is parallel to the stream, and rounded norms would be all that is left of it.
struct GeodesicRow {
  double inv_h = 0;  // 1/√(|h|² + eps), 0 for a zero row
  double inv_b = 0;
  double inv_m = 0;
  double turn = 0;  // θ for slerp, ⟨a, b̂⟩ for riem, unused for lerp
  double aa = 0;    // |a|² and |b̂|² for slerp: less than 1 where eps makes them shorter
  double dd = 0;
};

template <class T>
struct GeodesicForward {
  Rows<const T> h;
  Rows<const T> b;
  const Wide<T>* alpha;  // (alpha_count), alpha_count = cols or 1
  Index alpha_count;
  Rows<T> y;
  GeodesicRow* stats;  // (rows)
  double* steps;       // (cols) scratch: |alpha_mult·alpha|
  GeodesicRule rule;
  double alpha_mult;
  double eps;
};
template <class T>
void run(Ref, const GeodesicForward<T>& args);
void run(Cpu, const GeodesicForward<float>& args);
template <class T>
void run(Cuda, const GeodesicForward<T>& a);

template <class T>
struct GeodesicBackward {
  Rows<const T> h;
  Rows<const T> b;
  const Wide<T>* alpha;
  Index alpha_count;
  const GeodesicRow* stats;
  Rows<const T> dy;
  Rows<T> dh;  // data null: not wanted
  Into dh_into;
  Rows<T> db;
  Into db_into;
  Wide<T>* dalpha;  // (alpha_count); null: not wanted
  Into dalpha_into;
  double* partials;  // (RowChunks(rows).count, cols) when dalpha is wanted
  double* steps;     // (cols)
  double* weights;   // (RowChunks(rows).count, 2·cols) for slerp: the weights of a and b̂
  GeodesicRule rule;
  double alpha_mult;
};
template <class T>
void run(Ref, const GeodesicBackward<T>& args);
void run(Cpu, const GeodesicBackward<float>& args);
template <class T>
void run(Cuda, const GeodesicBackward<T>& a);

}  // namespace norma::kernels
