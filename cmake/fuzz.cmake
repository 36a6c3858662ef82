# One libFuzzer program per page fuzz/<name>_fuzz.cpp, named fuzz_<name>; the target fuzz_targets builds them all. Without
# NORMA_FUZZ the same pages become programs replay_<name>, which run over fuzz/corpus/<name> as tests.
function(norma_fuzz_program target page room)
  add_executable(${target} ${page} ${PROJECT_SOURCE_DIR}/fuzz/mutate.cpp ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${room} norma_io norma_flags)
endfunction()

if(NORMA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NORMA_FUZZ needs clang, whose libFuzzer it uses. Use the preset fuzz.")
  endif()
  # Coverage of the readers steers the fuzzer. The rooms that compute stay without: their counters, which libFuzzer
  # clears and reads after every input, would be most of the work. Comparisons are not traced, which halves the speed:
  # the mutators know the magic numbers and words.
  foreach(room base io text data nn optim train)
    target_compile_options(norma_${room} PRIVATE -fsanitize-coverage=inline-8bit-counters,pc-table)
  endforeach()
  add_custom_target(fuzz_targets)
endif()

# norma_fuzz(<name> <room>) : fuzz/<name>_fuzz.cpp, linked with a room and what that needs.
function(norma_fuzz name room)
  set(page ${PROJECT_SOURCE_DIR}/fuzz/${name}_fuzz.cpp)
  if(NORMA_FUZZ)
    norma_fuzz_program(fuzz_${name} ${page} norma_${room} ${PROJECT_SOURCE_DIR}/fuzz/options.cpp)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz_targets fuzz_${name})
  else()
    norma_fuzz_program(replay_${name} ${page} norma_${room} ${PROJECT_SOURCE_DIR}/fuzz/replay.cpp)
    add_test(NAME fuzz/${name} COMMAND replay_${name} ${PROJECT_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz)
  endif()
endfunction()

norma_fuzz(safetensors io)
norma_fuzz(shard data)
norma_fuzz(tokenizer text)
norma_fuzz(recipe train)
norma_fuzz(run_folder train)
