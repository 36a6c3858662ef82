# Writes norma/base/build_info.h into the build folder: once at configure, and again before every build, because the
# commit changes without a new configure. The file is touched only when its text changes.
#
# The same file is the script of the build step (cmake -P), told by NORMA_BUILD_INFO_OUT.
if(NORMA_BUILD_INFO_OUT)
  set(NORMA_COMMIT unknown)
  set(NORMA_DIRTY false)
  find_program(git_program git)
  if(git_program)
    execute_process(COMMAND ${git_program} rev-parse --short=12 HEAD WORKING_DIRECTORY ${NORMA_SOURCE}
                    OUTPUT_VARIABLE commit RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
      set(NORMA_COMMIT ${commit})
      execute_process(COMMAND ${git_program} status --porcelain --untracked-files=no WORKING_DIRECTORY ${NORMA_SOURCE}
                      OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        set(NORMA_DIRTY true)
      endif()
    endif()
  endif()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.h.in ${NORMA_BUILD_INFO_OUT} @ONLY)
  return()
endif()

set(NORMA_CUDA_TEXT "")
if(NORMA_HAVE_CUDA)
  set(NORMA_CUDA_TEXT ${CUDAToolkit_VERSION})
endif()
set(NORMA_MPI_TEXT "")
string(REPLACE ";" " " NORMA_ARCH "${NORMA_ARCH_FLAGS}")
set(generated ${PROJECT_BINARY_DIR}/generated)
set(build_info_command
    ${CMAKE_COMMAND}
    -DNORMA_BUILD_INFO_OUT=${generated}/norma/base/build_info.h
    -DNORMA_SOURCE=${PROJECT_SOURCE_DIR}
    -DPROJECT_VERSION=${PROJECT_VERSION}
    "-DNORMA_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -DNORMA_BUILD_TYPE=${CMAKE_BUILD_TYPE}
    "-DNORMA_ARCH=${NORMA_ARCH}"
    -DNORMA_NATIVE_BOOL=$<IF:$<BOOL:${NORMA_NATIVE}>,true,false>
    -DNORMA_SANITIZE_TEXT=${NORMA_SANITIZE}
    -DNORMA_ONEDNN_TEXT=${NORMA_ONEDNN_VERSION}
    -DNORMA_CUDA_TEXT=${NORMA_CUDA_TEXT}
    -DNORMA_MPI_TEXT=${NORMA_MPI_TEXT}
    -P ${CMAKE_CURRENT_LIST_FILE})

add_custom_target(norma_build_info
                  COMMAND ${build_info_command}
                  BYPRODUCTS ${generated}/norma/base/build_info.h
                  COMMENT "Looking at the commit"
                  VERBATIM)
add_library(norma_build_info_header INTERFACE)
target_include_directories(norma_build_info_header INTERFACE ${generated})
add_dependencies(norma_build_info_header norma_build_info)
