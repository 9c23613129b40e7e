# Decides what the build does with CUDA, from LADDER_CUDA (AUTO, ON, OFF), the compiler and libtorch at hand.
#
#   LADDER_CUDA_KERNELS   nvcc is here: the kernels can be compiled for GPUs
#   LADDER_WITH_CUDA      libtorch has CUDA too: they are linked in and run on CUDA tensors
#   LADDER_CUDA_ARCHITECTURES
set(LADDER_CUDA AUTO CACHE STRING "Build the CUDA side: AUTO (if it can), ON (fail if it cannot), OFF")
set_property(CACHE LADDER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LADDER_CUDA_ARCHITECTURES "" CACHE STRING
    "CUDA architectures of the kernels; empty: that of the GPU in this machine, or a list that nvcc supports")

# The GPU's own architecture where there is one; otherwise one per generation that this nvcc knows, so that the result
# runs on any of them.
function(ladder_choose_architectures result)
    execute_process(COMMAND nvidia-smi --query-gpu=name --format=csv,noheader
                    RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
    if(no_gpu EQUAL 0)
        set(${result} native PARENT_SCOPE)
        return()
    endif()
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    set(chosen)
    foreach(arch 60 75 80 90 100 120)
        if(known MATCHES "sm_${arch}\n")
            list(APPEND chosen ${arch}-real)
        endif()
    endforeach()
    list(POP_BACK chosen newest)
    string(REPLACE "-real" "" newest "${newest}")
    list(APPEND chosen ${newest})  # with PTX, for GPUs yet to come
    set(${result} "${chosen}" PARENT_SCOPE)
endfunction()

set(LADDER_CUDA_KERNELS FALSE)
set(LADDER_WITH_CUDA FALSE)
if(NOT LADDER_CUDA STREQUAL "OFF")
    include(CheckLanguage)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
        find_program(LADDER_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
        if(LADDER_NVCC)
            set(ENV{CUDACXX} "${LADDER_NVCC}")  # check_language tries it out before anyone relies on it
        endif()
    endif()
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # each kernel target says its own
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        enable_language(CUDA)
        if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
            set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
            set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
        endif()
        set(CMAKE_CUDA_STANDARD 20)
        set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # the one runtime that PyTorch uses too
        find_package(CUDAToolkit REQUIRED)
        set(LADDER_CUDA_KERNELS TRUE)
        set(LADDER_WITH_CUDA ${LADDER_TORCH_HAS_CUDA})
        if(NOT LADDER_CUDA_ARCHITECTURES)
            ladder_choose_architectures(LADDER_CUDA_ARCHITECTURES)
        endif()
    endif()
    if(LADDER_CUDA STREQUAL "ON" AND NOT LADDER_CUDA_KERNELS)
        message(FATAL_ERROR "LADDER_CUDA is ON, but no CUDA compiler was found: install the CUDA Toolkit and put nvcc on "
            "PATH, or set CMAKE_CUDA_COMPILER.")
    elseif(LADDER_CUDA STREQUAL "ON" AND NOT LADDER_WITH_CUDA)
        message(FATAL_ERROR "LADDER_CUDA is ON, but the libtorch in ${LADDER_TORCH_LIBRARY} has no CUDA: install PyTorch with "
            "CUDA (pip install torch), or set Torch_DIR to one.")
    endif()
endif()
