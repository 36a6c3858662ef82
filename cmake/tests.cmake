# One GoogleTest program per folder of tests/, named test_<folder>; CTest names are <folder>/<Suite>.<Case>.
#
# Labels: the folder's name, so `ctest -L ops` runs one room. Suites whose name starts with Slow also get the label slow
# and stay out of the quick battery; those that start with Gpu get the label gpu and skip themselves where there is none.
include(GoogleTest)

get_property(rooms GLOBAL PROPERTY NORMA_ROOMS)
set(tests_root ${PROJECT_SOURCE_DIR}/tests)

add_library(norma_test_base INTERFACE)
target_link_libraries(norma_test_base INTERFACE ${rooms} norma_flags norma_build_info_header)
target_include_directories(norma_test_base INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(norma_test_base INTERFACE NORMA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# tests/support: what several folders share. Include as "tests/support/x.h".
set(test_libraries norma_test_base)
file(GLOB support_sources CONFIGURE_DEPENDS ${tests_root}/support/*.cpp)
if(support_sources)
  add_library(norma_test_support STATIC ${support_sources})
  target_link_libraries(norma_test_support PUBLIC norma_test_base GTest::gtest)
  list(PREPEND test_libraries norma_test_support)
endif()

function(norma_test_folder folder)
  file(GLOB sources CONFIGURE_DEPENDS ${tests_root}/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  # Kernels for a GPU on the host: not where they are built for one, and sanitizers do not know fibers.
  if(folder STREQUAL "hopper" AND (NORMA_HAVE_CUDA OR NORMA_SANITIZE))
    return()
  endif()
  set(target test_${folder})
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${test_libraries} GTest::gtest GTest::gtest_main)
  if(folder STREQUAL "hopper")
    norma_on_host(${target})
  endif()
  if(folder STREQUAL "io")  # writes compressed files itself; rooms keep their libraries to themselves
    target_link_libraries(${target} PRIVATE ZLIB::ZLIB LibLZMA::LibLZMA norma_zstd)
  endif()
  if(folder MATCHES "^(cli|battery)$" AND TARGET norma)
    # The environment variable NORMA_BINARY, where the test looks at it, wins: a bundle moves.
    target_compile_definitions(${target} PRIVATE NORMA_BINARY="$<TARGET_FILE:norma>")
    add_dependencies(${target} norma)
  endif()
  foreach(speed IN ITEMS quick slow gpu)
    if(speed STREQUAL "slow")
      set(filter "Slow*:*/Slow*")
      set(labels "${folder};slow")
      set(limit_s 3600)
    elseif(speed STREQUAL "gpu")
      set(filter "Gpu*:*/Gpu*")
      set(labels "${folder};gpu")
      set(limit_s 3600)
    else()
      set(filter "-Slow*:*/Slow*:Gpu*:*/Gpu*")
      set(labels ${folder})
      set(limit_s 600)
    endif()
    gtest_discover_tests(${target}
                         TEST_PREFIX ${folder}/
                         TEST_FILTER ${filter}
                         TEST_LIST ${target}_${speed}
                         DISCOVERY_TIMEOUT 120)
    # Properties that are lists do not survive gtest_discover_tests, so CTest reads them from a file of their own.
    set(properties ${PROJECT_BINARY_DIR}/${target}_${speed}_properties.cmake)
    file(WRITE ${properties} "if(${target}_${speed})
  set_tests_properties(\${${target}_${speed}} PROPERTIES
                       LABELS \"${labels}\" TIMEOUT ${limit_s} ENVIRONMENT \"${NORMA_TEST_ENVIRONMENT}\")
endif()
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
  endforeach()
endfunction()

file(GLOB entries RELATIVE ${tests_root} LIST_DIRECTORIES true CONFIGURE_DEPENDS ${tests_root}/*)
foreach(entry IN LISTS entries)
  if(IS_DIRECTORY ${tests_root}/${entry} AND NOT entry STREQUAL "support")
    norma_test_folder(${entry})
  endif()
endforeach()

# The rules of the house. They look at the sources, so one build is enough: not in the sanitized ones.
if(NOT NORMA_SANITIZE AND NORMA_PYTHON)
  add_test(NAME rooms COMMAND ${NORMA_PYTHON} ${PROJECT_SOURCE_DIR}/tools/check_rooms.py)
  add_test(NAME format COMMAND ${PROJECT_SOURCE_DIR}/tools/format.sh --check)
  add_test(NAME step-table COMMAND ${NORMA_PYTHON} ${tests_root}/bench/step_table_test.py)
  add_test(NAME tidy-changed COMMAND ${PROJECT_SOURCE_DIR}/tools/tidy.sh changed --build ${PROJECT_BINARY_DIR})
  set_tests_properties(rooms format step-table tidy-changed PROPERTIES LABELS house SKIP_RETURN_CODE 77)
  set_tests_properties(tidy-changed PROPERTIES PROCESSORS 2 TIMEOUT 3600)
  if(TARGET norma)
    add_test(NAME scheme-docs
             COMMAND ${NORMA_PYTHON} ${PROJECT_SOURCE_DIR}/tools/scheme_docs.py --check --program $<TARGET_FILE:norma>)
    add_test(NAME corrupted-inputs
             COMMAND ${NORMA_PYTHON} ${PROJECT_SOURCE_DIR}/tools/corrupted_inputs.py --check --program $<TARGET_FILE:norma>)
    set_tests_properties(scheme-docs corrupted-inputs PROPERTIES LABELS house)
  endif()
endif()
