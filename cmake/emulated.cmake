# Kernels for CUDA as the host carries them out (tests/hopper).

# norma_on_host(<target>): what their pages need, those of the shim in the place of some of theirs and of CUDA's.
function(norma_on_host target)
  target_include_directories(${target} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/hopper/shim)
  target_compile_options(${target} PRIVATE
                         -Wno-unknown-pragmas  # those of CUDA's compiler
                         -fno-strict-aliasing  # packs are looked at as words
                         # g++ 12 calls what would initialize shared memory, if there were such a thing
                         $<$<CXX_COMPILER_ID:GNU>:-fno-extern-tls-init>)
endfunction()

if(NOT NORMA_EMULATED)
  return()
endif()
if(NORMA_CUDA)
  message(FATAL_ERROR "NORMA_CUDA and NORMA_EMULATED cannot both be on: a build has one GPU")
endif()

# The GPU of tests without one: CUDA's runtime, Hopper's instructions, and plain loops for cuBLASLt's products.
set(emulation ${PROJECT_SOURCE_DIR}/tests/hopper)
add_library(norma_emulation STATIC ${emulation}/fiber.cpp ${emulation}/machine.cpp
                                   ${emulation}/shim/cuda_runtime.cpp ${emulation}/shim/gemm.cpp)
target_include_directories(norma_emulation PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(norma_emulation PRIVATE norma_flags)
norma_on_host(norma_emulation)

set(NORMA_HAVE_CUDA ON)
set(NORMA_CUDA_LIBRARIES norma_emulation)
set(NORMA_EMULATED_UNUSED cuda/gemm.cpp)

# norma_emulate(<room> <page>...): compiles a room's pages for CUDA, with its language from their first line on; their
# warnings are those of builds with CUDA. Nothing is fused, as what would be could differ between kernels whose bits tests
# compare.
function(norma_emulate room)
  norma_on_host(${room})
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-O1;-w;-ffp-contract=off;-include;cuda_runtime.h")
endfunction()
