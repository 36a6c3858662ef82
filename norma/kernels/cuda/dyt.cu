#include "norma/kernels/cuda/activation_math.cuh"
#include "norma/kernels/cuda/elementwise.cuh"
#include "norma/kernels/cuda/quick_math.cuh"
#include "norma/kernels/dyt.h"

namespace norma::kernels {

namespace {

template <class C>
struct Squashed {
  C value;
  C slope;
};
/// f(u) and f'(u): 1 − tanh² or 2/√π·exp(−u²).
template <Squash kSquash, class C>
__device__ inline Squashed<C> squashed(C u) {
  if constexpr (kSquash == Squash::tanh) {
    const C t = tanh(u);
    return {t, (1 - t) * (1 + t)};
  } else {
    return {erf(u), static_cast<C>(1.1283791670955126) * exp(-u * u)};
  }
}

// Beside bf16: values good to 1e-6, one exp for value and slope, no branch. Where the functions are
// nearly linear their series takes over, since what is near 1 has few digits of them.
template <>
__device__ inline Squashed<float> squashed<Squash::tanh>(float u) {
  constexpr float kTwice = 2.8853900818f;                             // 2·log2(e)
  const float beyond = quick_inverse(1.0f + quick_exp2(kTwice * u));  // (1 − tanh u) / 2
  const float s = u * u;
  float series = fmaf(s, 62.0f / 2835, -17.0f / 315);
  series = fmaf(s, series, 2.0f / 15);
  series = fmaf(s, series, -1.0f / 3);
  series = fmaf(s, series, 1.0f);
  const float t = fabsf(u) < 0.36f ? u * series : fmaf(-2.0f, beyond, 1.0f);
  return {t, (1 - t) * (1 + t)};
}
template <>
__device__ inline Squashed<float> squashed<Squash::erf>(float u) {
  constexpr float kRate = 1.1283791671f;  // 2/√π
  const Normal<float> beyond = normal(-1.41421356237f * fabsf(u));
  const float s = u * u;
  float series = 1.0f / 9360;
  series = fmaf(s, series, -1.0f / 1320);
  series = fmaf(s, series, 1.0f / 216);
  series = fmaf(s, series, -1.0f / 42);
  series = fmaf(s, series, 0.1f);
  series = fmaf(s, series, -1.0f / 3);
  series = fmaf(s, series, 1.0f);
  const float t = copysignf(1.0f - 2.0f * beyond.below, u);
  return {fabsf(u) < 0.5f ? kRate * u * series : t, kRate * beyond.bell};
}

template <class C, class P>
__device__ inline C shift_of(const P* s) {
  return s == nullptr ? C{0} : read<C>(*s);
}

template <class T, int N, Squash kSquash>
__global__ void forward_kernel(DytForward<T> a) {
  using C = Math<T>;
  const Index c = own_column<N>();
  if (c >= a.x.cols) return;
  const C factor = read<C>(*a.a);
  const C shift = shift_of<C>(a.s);
  C gain[N];
  C bias[N];
  read_factors(a.gain, c, 1, gain);
#pragma unroll
  for (int k = 0; k < N; ++k) bias[k] = a.bias == nullptr ? C{0} : read<C>(a.bias[c + k]);
  walk_all_rows(
      a.x.rows,
      [&](Index r) { return load_packs<N>(r, c, a.x); },
      [&](Index r, const Packs<T, N, 1>& in) {
        C values[N];
        unpack(in.of[0], values);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          values[k] = gain[k] * squashed<kSquash>(factor * values[k] + shift).value + bias[k];
        }
        write_pack(a.y.row(r) + c, values);
      });
}

/// Where the sums over chunks of rows lie in `partials`: those of dgain and dbias column by column,
/// those of da and ds for every block of threads that shares a chunk.
template <class T>
struct Sums {
  Wide<T>* dgain;  // (chunks, cols)
  Wide<T>* dbias;
  Wide<T>* da;  // (chunks, blocks)
  Wide<T>* ds;
};

/// The sum over all threads of a block, in the first one.
template <class C>
__device__ C sum_of_threads(C value) {
  __shared__ C parts[kColumnWarps];
  value = warp_sum(value);
  __syncthreads();  // the last call's parts have been read
  if (threadIdx.x == 0) parts[threadIdx.y] = value;
  __syncthreads();
  C sum = 0;
  for (int w = 0; w < kColumnWarps; ++w) sum += parts[w];
  return sum;
}

template <class T, int N, Squash kSquash>
__global__ void __launch_bounds__(kColumnLanes* kColumnWarps, 2)
    backward_kernel(DytBackward<T> a, Sums<T> to, Index chunk_rows) {
  using C = Math<T>;
  const Index c = own_column<N>();
  const C factor = read<C>(*a.a);
  const C shift = shift_of<C>(a.s);
  C columns[2][N] = {};  // dgain, dbias
  C da = 0;
  C ds = 0;
  if (c < a.x.cols) {
    C gain[N];
    read_factors(a.gain, c, 1, gain);
    walk_chunk(
        a.x.rows,
        chunk_rows,
        [&](Index r) { return load_packs<N>(r, c, a.x, a.dy); },
        [&](Index r, const Packs<T, N, 2>& in) {
          C x[N];
          C dy[N];
          unpack(in.of[0], x);
          unpack(in.of[1], dy);
#pragma unroll
          for (int k = 0; k < N; ++k) {
            const Squashed<C> f = squashed<kSquash>(factor * x[k] + shift);
            const C du = dy[k] * gain[k] * f.slope;
            columns[0][k] += dy[k] * f.value;
            columns[1][k] += dy[k];
            da += du * x[k];
            ds += du;
            x[k] = factor * du;
          }
          if (a.dx) put_pack(a.dx.row(r) + c, x, a.dx_into);
        });
  }
  Wide<T>* const partials[2] = {to.dgain, to.dbias};
  put_chunk_sums(columns, a.x.cols, partials);
  const auto put_scalar = [&](C value, Wide<T>* sums) {
    if (sums == nullptr) return;
    const C sum = sum_of_threads(value);
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    write(sums[static_cast<Index>(blockIdx.y) * gridDim.x + blockIdx.x], sum);
  };
  put_scalar(da, to.da);
  put_scalar(ds, to.ds);
}

constexpr int kScalarThreads = 256;

template <class P>
__global__ void finish_scalar_kernel(const P* partials, Index count, P* out, Into into) {
  double sum = 0;
  for (Index i = threadIdx.x; i < count; i += kScalarThreads) sum += read<double>(partials[i]);
  sum = block_sum<kScalarThreads>(sum);
  if (threadIdx.x == 0) put(*out, sum, into);
}
template <class P>
void finish_scalar(const P* partials, Index count, P* out, Into into) {
  if (out == nullptr) return;
  launch("adding partial sums",
         1,
         kScalarThreads,
         0,
         finish_scalar_kernel<P>,
         partials,
         count,
         out,
         into);
}

template <class F>
void with_squash(Squash squash, F&& f) {
  if (squash == Squash::tanh) {
    f(std::integral_constant<Squash, Squash::tanh>{});
  } else {
    f(std::integral_constant<Squash, Squash::erf>{});
  }
}

}  // namespace

template <class T>
void run(Cuda, const DytForward<T>& a) {
  with_pack<T>(packs(a.x, kPack<T>) && packs(a.y, kPack<T>), [&](auto n) {
    with_squash(a.squash, [&](auto squash) {
      launch("dyt",
             element_grid(a.x.rows, a.x.cols, n),
             column_block(),
             0,
             forward_kernel<T, n, squash>,
             a);
    });
  });
}
template void run(Cuda, const DytForward<float>&);
template void run(Cuda, const DytForward<Bf16>&);

template <class T>
void run(Cuda, const DytBackward<T>& a) {
  const Index cols = a.x.cols;
  const RowChunks chunks = gpu_chunks(a.x.rows);
  const bool fit = packs(a.x, kPack<T>) && packs(a.dy, kPack<T>) && packs(a.dx, kPack<T>);
  with_pack<T>(fit, [&](auto n) {
    const dim3 grid = column_grid(cols, n, chunks);
    const Index scalars = chunks.count * static_cast<Index>(grid.x);
    Wide<T>* const dbias = a.partials + chunks.count * cols;
    Wide<T>* const da = dbias + chunks.count * cols;
    const auto wanted = [](const Wide<T>* out, Wide<T>* sums) {
      return out == nullptr ? nullptr : sums;
    };
    const Sums<T> sums{wanted(a.dgain, a.partials),
                       wanted(a.dbias, dbias),
                       wanted(a.da, da),
                       wanted(a.ds, da + scalars)};
    with_squash(a.squash, [&](auto squash) {
      launch("the gradient of dyt",
             grid,
             column_block(),
             0,
             backward_kernel<T, n, squash>,
             a,
             sums,
             chunks.size);
    });
    if (a.dgain != nullptr) finish_columns(sums.dgain, chunks.count, cols, a.dgain, a.dgain_into);
    if (a.dbias != nullptr) finish_columns(sums.dbias, chunks.count, cols, a.dbias, a.dbias_into);
    finish_scalar(sums.da, scalars, a.da, a.da_into);
    finish_scalar(sums.ds, scalars, a.ds, a.ds_into);
  });
}
template void run(Cuda, const DytBackward<float>&);
template void run(Cuda, const DytBackward<Bf16>&);

}  // namespace norma::kernels
