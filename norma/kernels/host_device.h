// Functions that the host and kernels for the GPU share.
#pragma once

#if defined(__CUDACC__)
#define NORMA_BOTH __host__ __device__
#else
#define NORMA_BOTH
#endif
