# Compiler flags and the two functions that every folder uses.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")  # asserts stay on: an invariant that broke must not go on writing

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness ccache refuses every unit that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

add_library(caravan_flags INTERFACE)
target_compile_options(caravan_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Werror)
if(CARAVAN_SANITIZE)
  # CAF itself binds null references in its type registry; -fsanitize=null would report only that.
  add_compile_options(-fsanitize=${CARAVAN_SANITIZE} -fno-omit-frame-pointer)
  if(CARAVAN_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=null -fno-sanitize-recover=undefined)
  endif()
  add_link_options(-fsanitize=${CARAVAN_SANITIZE})
endif()

# caravan_library(NAME SOURCES a.cpp ... [USES libs every user needs too] [PRIVATE libs only it needs])
# Sources see the repository root ("messages/record.hpp") and include/ (<caravan/error.hpp>).
function(caravan_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    add_library(caravan_${name} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(caravan_${name} PRIVATE $<BUILD_INTERFACE:caravan_flags> ${ARG_PRIVATE})
  else()
    add_library(caravan_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(caravan_${name} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  foreach(used IN LISTS ARG_USES)
    if(TARGET caravan_${used})
      target_link_libraries(caravan_${name} ${scope} caravan_${used})
    else()
      target_link_libraries(caravan_${name} ${scope} ${used})
    endif()
  endforeach()
  install(TARGETS caravan_${name} EXPORT caravan_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# caravan_test(NAME SOURCES x.test.cpp ... [USES libs] [LABELS l] [TIMEOUT s] [ARGS ...])
# One program and one ctest test: a failed CAF_REQUIRE aborts the program, so suites do not share one.
function(caravan_test name)
  if(NOT CARAVAN_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;USES;LABELS;ARGS" ${ARGN})
  # Debian's CAF is not built for ThreadSanitizer, which then reports CAF's own synchronisation and hides our races behind
  # it. Everything without CAF is judged.
  if(CARAVAN_SANITIZE STREQUAL "thread" AND ARG_USES MATCHES "(^|;)(nodes|actors|wire)(;|$)")
    return()
  endif()
  if(NOT TARGET caravan_test_main)
    add_library(caravan_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/test_main.cpp)
    target_link_libraries(caravan_test_main PUBLIC CAF::core CAF::io)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_compile_definitions(test_${name} PRIVATE CARAVAN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE caravan_flags caravan_test_main)
  foreach(used IN LISTS ARG_USES)
    if(TARGET caravan_${used})
      target_link_libraries(test_${name} PRIVATE caravan_${used})
    else()
      target_link_libraries(test_${name} PRIVATE ${used})
    endif()
  endforeach()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  # The engine's own watchdog aborts after 30 s unless it is told otherwise; it goes off just before ctest's, and says so.
  math(EXPR watchdog "${ARG_TIMEOUT} - 5")
  add_test(NAME ${name} COMMAND test_${name} -n -v 3 -r ${watchdog} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# CAF's headers cost seconds in every unit. Targets that stand on CAF share this; it changes no unit's meaning, since each
# includes what it needs all the same.
function(caravan_precompile_caf target)
  target_precompile_headers(${target} PRIVATE <caf/all.hpp>)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # else ccache steps aside
endfunction()

include(GNUInstallDirs)
