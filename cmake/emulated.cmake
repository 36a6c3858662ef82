# The GPU of tests without one: CUDA's runtime and Hopper's instructions as the host carries them out (tests/hopper).
# Rooms compile their pages for CUDA as C++, with pages of the shim in the place of those that it has.
set(emulation ${PROJECT_SOURCE_DIR}/tests/hopper)
add_library(norma_emulation STATIC ${emulation}/fiber.cpp ${emulation}/machine.cpp ${emulation}/shim/cuda_runtime.cpp)
target_include_directories(norma_emulation BEFORE PUBLIC ${emulation}/shim PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(norma_emulation PRIVATE norma_flags)
target_compile_options(norma_emulation
                       PUBLIC -Wno-unknown-pragmas -fno-strict-aliasing -fno-extern-tls-init)

set(NORMA_HAVE_CUDA ON)
set(NORMA_CUDA_LIBRARIES norma_emulation)
set(NORMA_EMULATED_UNUSED cuda/gemm.cpp)

# norma_emulate(<room> <page>...): compiles the room's pages for CUDA. They come without warnings, which are those of
# builds with CUDA, and with CUDA's language from their first line on, as there.
function(norma_emulate room)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-O1;-w;-ffp-contract=off;-include;cuda_runtime.h")
  target_include_directories(${room} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/hopper/shim)
  if(room STREQUAL "norma_kernels")
    target_sources(${room} PRIVATE ${PROJECT_SOURCE_DIR}/tests/hopper/shim/gemm.cpp)
  endif()
endfunction()
