# How every target of fptrain is made: one static library per module, one test executable per test folder.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(fp_flags INTERFACE)
# -Wno-restrict: GCC 12 sees overlapping copies in std::string's operator+ (GCC bug 105651).
target_compile_options(fp_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-restrict)
if(FPTRAIN_WERROR)
  target_compile_options(fp_flags INTERFACE -Werror)
endif()
if(FPTRAIN_SANITIZE)
  target_compile_options(fp_flags INTERFACE -fsanitize=${FPTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(fp_flags INTERFACE -fsanitize=${FPTRAIN_SANITIZE})
endif()
target_include_directories(fp_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib)

# fp_module(name [DEPS target...]): static library fp_<name> from the .cpp files of this folder.
# Sub-folders are modules of their own. Include paths start at lib/: #include "base/error.h".
function(fp_module name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(sources)
    add_library(fp_${name} STATIC ${sources})
    target_link_libraries(fp_${name} PUBLIC fp_flags ${ARG_DEPS})
  else()
    add_library(fp_${name} INTERFACE)
    target_link_libraries(fp_${name} INTERFACE fp_flags ${ARG_DEPS})
  endif()
endfunction()

# fp_tests(name [RUNS_FPTRAIN] [DEPS target...] [LABELS label...]): Catch2 executable test_<name> from the .cpp files of
# this folder. RUNS_FPTRAIN: the tests start the fptrain executable (its path is FP_EXECUTABLE).
function(fp_tests name)
  cmake_parse_arguments(ARG "RUNS_FPTRAIN" "" "DEPS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE fp_test_main ${ARG_DEPS})
  target_compile_definitions(test_${name} PRIVATE FP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(ARG_RUNS_FPTRAIN)
    target_compile_definitions(test_${name} PRIVATE FP_EXECUTABLE="$<TARGET_FILE:fptrain>")
    add_dependencies(test_${name} fptrain)
  endif()
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " PROPERTIES LABELS "${name};${ARG_LABELS}"
    SKIP_RETURN_CODE 4)
endfunction()
