# norma_flags: warnings, instruction set and floating-point rules, linked privately into every target of the tree.
add_library(norma_flags INTERFACE)

# For the host compiler alone; nvcc has its own below.
function(norma_cxx_options)
  target_compile_options(norma_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

norma_cxx_options(-Wall -Wextra -Wshadow -Wpedantic)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Not a fault of the code: clang says so when it declines to vectorize a loop that asks for it, as it does at -O1.
  norma_cxx_options(-Wno-pass-failed)
endif()
if(NORMA_WERROR)
  norma_cxx_options(-Werror)
endif()

# Neither flag changes a value: they let the compiler vectorize sqrt and comparisons. -ffast-math is never used, because
# it reorders sums and erases NaN checks. Contraction (fused multiply-add) stays at the compiler's default.
norma_cxx_options(-fno-math-errno -fno-trapping-math)

if(NORMA_NATIVE)
  set(NORMA_ARCH_FLAGS -march=native)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ prefers 256-bit registers on AVX-512 machines; the row kernels are faster with whole ones.
    include(CheckCXXSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS -march=native)
    check_cxx_source_compiles("#ifndef __AVX512F__\n#error no\n#endif\nint main() {}" NORMA_CPU_HAS_AVX512F)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NORMA_CPU_HAS_AVX512F)
      list(APPEND NORMA_ARCH_FLAGS -mprefer-vector-width=512)
    endif()
  endif()
else()
  set(NORMA_ARCH_FLAGS -march=x86-64-v3)
endif()
norma_cxx_options(${NORMA_ARCH_FLAGS})

# Constant expressions (random numbers) may be called on the GPU too; line numbers cost nothing.
# Kernels are kept small in the file (an eighth): they are unpacked when they are first used.
# What is not called from there may hold OpenMP's pragmas. 554: a conversion of Rows<const T> to itself is never called, which is the intent.
target_compile_options(norma_flags INTERFACE
                       "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-diag-suppress=554;--compress-mode=size;-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas,-fno-math-errno>")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -DNDEBUG")

# Messages name a file as norma/ops/x.cpp wherever the tree lies, and objects do not know the folder that they were built in.
norma_cxx_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fdebug-prefix-map=${PROJECT_BINARY_DIR}=build)

# `#pragma omp` is part of the language here; calls of <omp.h> stay in base and kernels (tools/check_rooms.py).
target_link_libraries(norma_flags INTERFACE OpenMP::OpenMP_CXX)

# -g1 keeps stack traces and profiles readable at a fraction of the time and size of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")

# Portable builds go into a bundle: bin/ beside lib/. The old kind of run path is wanted, because it also serves the
# libraries that a bundled library needs.
if(NOT NORMA_NATIVE)
  set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(norma_flags INTERFACE -Wl,--disable-new-dtags)
endif()
