# Finds libtorch where people have it, in this order: where Torch_DIR or CMAKE_PREFIX_PATH says, inside the PyTorch that
# `python3` imports, in the system's own packages (libtorch-dev on Debian and Ubuntu).
#
# A function, because Torch's CMake files rewrite compiler flags and CUDA architectures of the scope that reads them. Only
# targets that include torch headers link `ladder_torch`; kernels never do.
function(ladder_find_torch)
    if(NOT Torch_DIR AND NOT CMAKE_PREFIX_PATH)
        execute_process(
            COMMAND python3 -c "import torch; print(torch.utils.cmake_prefix_path)"
            OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        if(prefix AND EXISTS "${prefix}/Torch/TorchConfig.cmake")
            set(Torch_DIR "${prefix}/Torch" CACHE PATH "Where TorchConfig.cmake is")
        endif()
    endif()
    find_package(Torch QUIET)
    if(NOT TARGET torch)
        message(FATAL_ERROR "libtorch was not found.\n"
            "  Debian, Ubuntu:  sudo apt install libtorch-dev\n"
            "  or any PyTorch:  pip install torch   (found through python3)\n"
            "  or set Torch_DIR to the folder of TorchConfig.cmake.\n"
            "`./ladder doctor` shows what was looked at.")
    endif()

    add_library(ladder_torch INTERFACE)
    target_link_libraries(ladder_torch INTERFACE ${TORCH_LIBRARIES})
    target_include_directories(ladder_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")  # the ABI of std::string, where it is not the default
    target_compile_options(ladder_torch INTERFACE ${torch_flags})

    if(TARGET torch_cuda)
        set(LADDER_TORCH_HAS_CUDA TRUE PARENT_SCOPE)
    else()
        set(LADDER_TORCH_HAS_CUDA FALSE PARENT_SCOPE)
    endif()
    set(LADDER_TORCH_VERSION "${Torch_VERSION}" PARENT_SCOPE)
    set(LADDER_TORCH_DIR "${Torch_DIR}" PARENT_SCOPE)
endfunction()
