# Sets `result` to the compute capabilities that CUDA kernels are compiled for: those in `wanted`, if there are any;
# else with ON 80, 90 and 100, with AUTO those of this machine's GPUs, or 90 where there is none. Empty: all of the GPUs
# are too old.
function(choose_cuda_archs wanted mode result)
  foreach(arch IN LISTS wanted)
    if(arch MATCHES "^([0-9]+)" AND CMAKE_MATCH_1 LESS 80)
      message(FATAL_ERROR
        "FPTRAIN_CUDA_ARCHS is '${wanted}', but the kernels need compute capability 8.0 (80) or newer")
    endif()
  endforeach()
  set(archs "${wanted}")
  if(NOT archs AND mode STREQUAL "AUTO")
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE here RESULT_VARIABLE failed ERROR_QUIET)
    string(REGEX REPLACE "[.]" "" here "${here}")
    string(REGEX MATCHALL "[0-9]+" here "${here}")
    list(REMOVE_DUPLICATES here)
    if(failed OR NOT here)
      set(here 90)
    endif()
    foreach(arch IN LISTS here)
      if(NOT arch LESS 80)
        list(APPEND archs ${arch})
      endif()
    endforeach()
    if(NOT archs)
      message(STATUS "CUDA: this machine's GPUs (${here}) are older than compute capability 8.0; "
        "set FPTRAIN_CUDA_ARCHS to build for others")
    endif()
  elseif(NOT archs)
    set(archs 80 90 100)
  endif()
  set(${result} "${archs}" PARENT_SCOPE)
endfunction()
