# FPTRAIN_CUDA: AUTO builds the CUDA backend where a CUDA 13 compiler is found, ON demands one, OFF leaves it out.
# FPTRAIN_CUDA_ARCHS: compute capabilities the kernels are compiled for, such as 80;90;100; from 80 on. Empty: with ON
# all of these, with AUTO those of this machine's GPUs, or 90 where there is none (so that the kernels do compile). AUTO
# leaves CUDA out where all GPUs are older.
set(FPTRAIN_CUDA AUTO CACHE STRING "CUDA backend: AUTO, ON or OFF")
set_property(CACHE FPTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FPTRAIN_CUDA_ARCHS "" CACHE STRING "Compute capabilities to build kernels for, such as 80;90;100")
if(NOT FPTRAIN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FPTRAIN_CUDA is '${FPTRAIN_CUDA}'; legal: AUTO, ON, OFF")
endif()

set(FPTRAIN_HAS_CUDA OFF)
# Instrumented host code cannot be linked with uninstrumented device code.
if(NOT FPTRAIN_CUDA STREQUAL "OFF" AND NOT FPTRAIN_SANITIZE)
  find_program(FPTRAIN_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(FPTRAIN_NVCC)
    include(${CMAKE_CURRENT_LIST_DIR}/cuda_archs.cmake)
    choose_cuda_archs("${FPTRAIN_CUDA_ARCHS}" ${FPTRAIN_CUDA} FPTRAIN_CUDA_ARCHS)
    if(FPTRAIN_CUDA_ARCHS)
      set(CMAKE_CUDA_COMPILER ${FPTRAIN_NVCC})
      set(CMAKE_CUDA_ARCHITECTURES ${FPTRAIN_CUDA_ARCHS})
      enable_language(CUDA)
      find_package(CUDAToolkit 13 REQUIRED)
      set(FPTRAIN_HAS_CUDA ON)
    endif()
  elseif(FPTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FPTRAIN_CUDA=ON, but there is no nvcc: put CUDA 13's bin folder in PATH, or set CUDACXX")
  endif()
elseif(FPTRAIN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "FPTRAIN_CUDA=ON does not go with FPTRAIN_SANITIZE")
endif()
if(FPTRAIN_HAS_CUDA)
  message(STATUS "CUDA backend: ${CMAKE_CUDA_COMPILER}, architectures ${FPTRAIN_CUDA_ARCHS}")
else()
  message(STATUS "CUDA backend: left out")
endif()

# Sources under cuda/ include "cuda/..." from the root of the tree.
add_library(fp_cuda_flags INTERFACE)
target_include_directories(fp_cuda_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lib)
if(FPTRAIN_HAS_CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 as in Debian 12 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_STANDARD 20)
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  target_link_libraries(fp_cuda_flags INTERFACE fmt::fmt)
  target_include_directories(fp_cuda_flags SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(fp_cuda_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-restrict -lineinfo>)
  # fmt 9 leaves constexpr out under nvcc, and then its own check of format strings does not compile.
  target_compile_definitions(fp_cuda_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  if(FPTRAIN_WERROR)
    target_compile_options(fp_cuda_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
  endif()
endif()
