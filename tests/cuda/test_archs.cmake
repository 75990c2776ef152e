# The architectures that cmake/cuda_archs.cmake chooses, with a fake nvidia-smi in FOLDER. REFUSED: the error of an old
# one alone.
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/cuda_archs.cmake)
file(MAKE_DIRECTORY ${FOLDER})
set(ENV{PATH} "${FOLDER}:$ENV{PATH}")

# Checks what is chosen on a machine whose GPUs have these compute capabilities, a line each.
function(check_archs gpus wanted mode expected)
  file(WRITE ${FOLDER}/nvidia-smi "#!/bin/sh\nprintf '${gpus}'\n")
  file(CHMOD ${FOLDER}/nvidia-smi PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  choose_cuda_archs("${wanted}" ${mode} chosen)
  if(NOT "${chosen}" STREQUAL "${expected}")
    message(SEND_ERROR "GPUs '${gpus}', wanted '${wanted}', ${mode}: '${chosen}'; expected '${expected}'")
  endif()
endfunction()

if(REFUSED)
  check_archs("" "75;90" AUTO "")
endif()
check_archs("9.0\\n9.0\\n8.0\\n" "" AUTO "90;80")
check_archs("12.0\\n" "" AUTO "120")
check_archs("7.5\\n" "" AUTO "")
check_archs("7.0\\n8.6\\n" "" AUTO "86")
check_archs("" "" AUTO "90")
check_archs("7.5\\n" "" ON "80;90;100")
check_archs("7.5\\n" "90a" AUTO "90a")
