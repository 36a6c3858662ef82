# NORMA_SANITIZE puts every target under sanitizers. Address with undefined, or thread: the two do not combine.
if(NORMA_SANITIZE)
  if(NORMA_SANITIZE MATCHES "thread" AND NORMA_SANITIZE MATCHES "address|leak")
    message(FATAL_ERROR "NORMA_SANITIZE: thread cannot be combined with address; build the presets asan and tsan.")
  endif()
  if(NORMA_SANITIZE MATCHES "thread" AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NORMA_SANITIZE=thread needs clang and libomp, because g++'s libgomp hides its synchronization "
                        "from the sanitizer and every parallel loop looks like a race. Use the preset tsan.")
  endif()
  # Fuzzing lives from speed: twice the executions are worth a less exact stack.
  set(optimize -O1 -g)
  if(NORMA_FUZZ)
    set(optimize -O2 -g1)
  endif()
  target_compile_options(norma_flags INTERFACE -fsanitize=${NORMA_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer ${optimize})
  target_compile_definitions(norma_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(norma_flags INTERFACE -fsanitize=${NORMA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code makes g++ 12 report initialized variables as uninitialized.
    target_compile_options(norma_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# What the tests of a sanitized build need in their environment.
set(NORMA_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)  # ctest runs several at once: waiting threads must not spin
if(NORMA_SANITIZE MATCHES "undefined")
  list(APPEND NORMA_TEST_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1)
endif()
if(NORMA_SANITIZE MATCHES "thread")
  # Archer tells the thread sanitizer about OpenMP's barriers and tasks.
  get_filename_component(libomp_folder "${OpenMP_omp_LIBRARY}" REALPATH)
  get_filename_component(libomp_folder "${libomp_folder}" DIRECTORY)
  find_library(NORMA_ARCHER NAMES archer HINTS ${libomp_folder} /usr/lib/llvm-14/lib)
  if(NORMA_ARCHER)
    list(APPEND NORMA_TEST_ENVIRONMENT OMP_TOOL_LIBRARIES=${NORMA_ARCHER})
  else()
    message(WARNING "libarcher was not found: the thread sanitizer will report races that are none.")
  endif()
  list(APPEND NORMA_TEST_ENVIRONMENT TSAN_OPTIONS=ignore_noninstrumented_modules=1)
endif()
