# One libFuzzer program per page fuzz/<name>_fuzz.cpp, named fuzz_<name>; the target fuzz_targets builds them all.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "NORMA_FUZZ needs clang, whose libFuzzer it uses. Use the preset fuzz.")
endif()

# Coverage of the rooms' code steers the fuzzer; linking libFuzzer itself is for its programs alone.
target_compile_options(norma_flags INTERFACE -fsanitize=fuzzer-no-link)

add_custom_target(fuzz_targets)
file(GLOB fuzz_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cpp)
foreach(page IN LISTS fuzz_pages)
  get_filename_component(name ${page} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${name})
  add_executable(fuzz_${name} ${page} ${PROJECT_SOURCE_DIR}/tests/support/memory_disk.cpp)
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(fuzz_${name} PRIVATE norma_data norma_text norma_io norma_base norma_flags)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz_targets fuzz_${name})
endforeach()
