# Functions that create the targets of fptrain: one static library per module, one test executable per test folder.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# mold links each of the many test executables in a third of the time of the default linker.
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

add_library(fp_flags INTERFACE)
# GCC's warnings are the ones that are kept at zero; clang only builds what runs with sanitizers or is fuzzed.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wno-restrict: GCC 12 sees overlapping copies in std::string's operator+ (GCC bug 105651).
  target_compile_options(fp_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-restrict>)
  if(FPTRAIN_WERROR)
    target_compile_options(fp_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  endif()
else()
  target_compile_options(fp_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-w>)
endif()
if(FPTRAIN_SANITIZE)
  # GCC 12 breaks 512-bit kernels under the address sanitizer, and takes half as long again to compile.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FPTRAIN_SANITIZE needs clang, which the presets asan, tsan and fuzz use")
  endif()
  target_compile_options(fp_flags INTERFACE -fsanitize=${FPTRAIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # Test code is built without the checks of undefined behaviour, which more than double its compile time.
  target_compile_options(fp_flags INTERFACE $<$<BOOL:$<TARGET_PROPERTY:FP_TEST_CODE>>:-fno-sanitize=undefined>)
  target_link_options(fp_flags INTERFACE -fsanitize=${FPTRAIN_SANITIZE})
  # GCC's macros, which clang does not define.
  string(REGEX MATCHALL "address|thread" sanitizers "${FPTRAIN_SANITIZE}")
  foreach(sanitizer ${sanitizers})
    string(TOUPPER "__SANITIZE_${sanitizer}__" macro)
    target_compile_definitions(fp_flags INTERFACE ${macro})
  endforeach()
endif()
if(FPTRAIN_FUZZ)
  target_compile_options(fp_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=vptr)
endif()
target_include_directories(fp_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib)

# fp_unity(target): compiles the sources of a target several at a time, so that the headers they share are read once. A
# missing #include goes unnoticed then; scripts/check-includes finds it.
function(fp_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FPTRAIN_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# fp_rarely_run(target): compiles a target with fewer optimisations, because its code takes a negligible part of a run.
# It builds in two thirds of the time, and in half the time with sanitizers.
function(fp_rarely_run target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)
endfunction()

# fp_module(name [RARELY_RUN] [COMPUTES] [FOLDERS folder...] [DEPS target...]): static library fp_<name> from the .cpp
# files of this folder and of the named sub-folders, which belong to the module. Other sub-folders are their own modules.
# RARELY_RUN: see above. COMPUTES: its loops dominate the time of tests, so it is also optimised under the asan preset,
# where other code is not because -O1 takes twice as long to compile as -O0.
# Include paths start at lib/: #include "base/error.h".
function(fp_module name)
  cmake_parse_arguments(ARG "RARELY_RUN;COMPUTES" "" "FOLDERS;DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(folder ${ARG_FOLDERS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  if(sources)
    add_library(fp_${name} STATIC ${sources})
    target_link_libraries(fp_${name} PUBLIC fp_flags ${ARG_DEPS})
    fp_unity(fp_${name})
    if(ARG_RARELY_RUN)
      fp_rarely_run(fp_${name})
    endif()
    if(ARG_COMPUTES)
      target_compile_options(fp_${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
    endif()
  else()
    add_library(fp_${name} INTERFACE)
    target_link_libraries(fp_${name} INTERFACE fp_flags ${ARG_DEPS})
  endif()
endfunction()

# fp_test_code(target [COMPUTES]): compiles a target of tests cheaply: Catch2's macros take minutes to optimise, and most
# tests spend their time in the libraries. COMPUTES: those that check millions of values themselves.
function(fp_test_code target)
  cmake_parse_arguments(ARG "COMPUTES" "" "" ${ARGN})
  set(headers fp_test_headers)
  set(release -O0)
  if(ARG_COMPUTES)
    set(headers fp_test_headers_optimised)
    set(release -O1)
  endif()
  set_target_properties(${target} PROPERTIES FP_TEST_CODE ON)
  # GCC 12 falsely reports members of an empty std::optional and, in precompiled headers, copies of std::string; Catch2's own
  # pragma for parentheses is lost in these.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${release}> $<$<CONFIG:RelWithDebInfo>:-O0>
    -Wno-maybe-uninitialized -Wno-array-bounds -Wno-parentheses)
  if(NOT target STREQUAL headers)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# fp_tests(name [RUNS_FPTRAIN] [COMPUTES] [SOURCES file...] [DEPS target...]): Catch2 executable test_<name> from the
# .cpp files of this folder or those named, each test case a ctest test labelled <name>, and `slow` or `nightly` too
# where its tags hold [slow] or [nightly].
# A DEPS target of objects (a suite) is linked whole. The caller's FP_TEST_PROPERTIES apply to every test,
# FP_FAST_TEST_PROPERTIES to those that are neither slow nor nightly: ctest runs a test that sets up a fixture even when
# its label is excluded.
# RUNS_FPTRAIN: the tests start the fptrain executable (its path is FP_EXECUTABLE). COMPUTES: see fp_test_code().
function(fp_tests name)
  cmake_parse_arguments(ARG "RUNS_FPTRAIN;COMPUTES" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    set(sources ${ARG_SOURCES})
  else()
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE fp_test_main ${ARG_DEPS})
  if(ARG_COMPUTES)
    fp_test_code(test_${name} COMPUTES)
  else()
    fp_test_code(test_${name})
  endif()
  fp_unity(test_${name})
  target_compile_definitions(test_${name} PRIVATE FP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(ARG_RUNS_FPTRAIN)
    target_compile_definitions(test_${name} PRIVATE FP_EXECUTABLE="$<TARGET_FILE:fptrain>")
    add_dependencies(test_${name} fptrain)
  endif()
  # Exit code 4 is a skip: tests/support/main.cpp.
  catch_discover_tests(test_${name} TEST_SPEC "~[slow]~[nightly]" TEST_PREFIX "${name}: "
    PROPERTIES LABELS ${name} SKIP_RETURN_CODE 4 ${FP_TEST_PROPERTIES} ${FP_FAST_TEST_PROPERTIES})
  # catch_discover_tests cannot pass a list of labels on, so they are set when ctest reads the discovered tests.
  set(labels ${CMAKE_CURRENT_BINARY_DIR}/labels_of_${name}.cmake)
  file(WRITE ${labels} "")
  foreach(tag slow nightly)
    catch_discover_tests(test_${name} TEST_SPEC "[${tag}]" TEST_PREFIX "${name}: " TEST_LIST ${tag}_tests_of_${name}
      PROPERTIES SKIP_RETURN_CODE 4 ${FP_TEST_PROPERTIES})
    file(APPEND ${labels} "if(${tag}_tests_of_${name})
  set_tests_properties(\${${tag}_tests_of_${name}} PROPERTIES LABELS \"${name};${tag}\")
endif()\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels})
endfunction()
