# norma_room(<name> [NEEDS <room>...] [USES <library>...] [WITHOUT <file>...])
#
# One folder, one target, one line of dependencies. Sources are all .cpp files below norma/<name>, less those named by
# WITHOUT (paths relative to the folder: alternatives of which CMake picks one). NEEDS are public, USES are private.
# A folder cuda/ is compiled in builds with CUDA, and a page no_cuda.cpp in the others.
# A room without sources becomes a header-only target, so a room may start as a header.
set_property(GLOBAL PROPERTY NORMA_ROOMS "")

function(norma_room name)
  cmake_parse_arguments(ROOM "" "" "NEEDS;USES;WITHOUT" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/norma/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(NORMA_HAVE_CUDA)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${folder}/*.cu)
    list(APPEND sources ${cuda_sources})
    list(FILTER sources EXCLUDE REGEX "/no_cuda\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/cuda/")
  endif()
  foreach(unused IN LISTS ROOM_WITHOUT)
    list(REMOVE_ITEM sources ${folder}/${unused})
  endforeach()
  list(TRANSFORM ROOM_NEEDS PREPEND norma_)

  if(sources)
    add_library(norma_${name} ${sources})
    if(NORMA_EMULATED AND cuda_sources)
      norma_emulate(norma_${name} ${cuda_sources})
    endif()
    target_include_directories(norma_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(norma_${name}
                          PUBLIC ${ROOM_NEEDS}
                          PRIVATE norma_flags norma_build_info_header ${ROOM_USES})
  else()
    add_library(norma_${name} INTERFACE)
    target_include_directories(norma_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(norma_${name} INTERFACE ${ROOM_NEEDS})
  endif()
  set_property(GLOBAL APPEND PROPERTY NORMA_ROOMS norma_${name})
endfunction()

# norma_app(<name> [USES <library>...]) : the program in apps/<name>, linked against every room.
function(norma_app name)
  cmake_parse_arguments(APP "" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/${name}/*.cpp)
  if(NOT sources)
    message(STATUS "apps/${name} has no sources: the program is not built")
    return()
  endif()
  get_property(rooms GLOBAL PROPERTY NORMA_ROOMS)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${rooms} norma_flags norma_build_info_header ${APP_USES})
endfunction()

# norma_embed_schemes(<room> <folder>) : the TOML files of a folder become part of the room.
function(norma_embed_schemes room folder)
  set(output ${PROJECT_BINARY_DIR}/generated/builtin_schemes.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_schemes.cmake)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.toml)
  # A file that is gone changes no time stamp, but it does change this list.
  set(list ${PROJECT_BINARY_DIR}/generated/builtin_schemes.list)
  file(CONFIGURE OUTPUT ${list} CONTENT "${files}")
  add_custom_command(OUTPUT ${output}
                     COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${script}
                     DEPENDS ${files} ${list} ${script}
                     COMMENT "Embedding the schemes")
  target_sources(norma_${room} PRIVATE ${output})
endfunction()
