# Finds libtorch where people have it, in this order: where Torch_DIR says (the folder of TorchConfig.cmake), inside the
# PyTorch that `python3` imports, in the system's own packages (libtorch-dev on Debian and Ubuntu). Under pip, `python3` is
# the Python that the package is installed into.
#
# Torch's own CMake files are not used: they rewrite compiler flags and CUDA architectures of whoever reads them, and refuse a
# PyTorch with CUDA on a machine that has no CUDA Toolkit, where the CPU half serves well. What a program needs of libtorch
# is two include folders and a few libraries.
#
#   ladder_torch            link this to include torch headers; kernels never do
#   LADDER_TORCH_VERSION, LADDER_TORCH_LIBRARY, LADDER_TORCH_HAS_CUDA
set(ladder_torch_root "")
if(Torch_DIR OR DEFINED ENV{Torch_DIR})
    if(Torch_DIR)
        set(ladder_torch_cmake "${Torch_DIR}")
    else()
        set(ladder_torch_cmake "$ENV{Torch_DIR}")
    endif()
    cmake_path(SET ladder_torch_root NORMALIZE "${ladder_torch_cmake}/../../..")
else()
    set(ladder_torch_python python3)
    if(SKBUILD)  # pip builds in an environment without PyTorch; with -I, Python looks past it
        set(ladder_torch_python "${Python_EXECUTABLE}" -I)
    endif()
    execute_process(
        COMMAND ${ladder_torch_python} -c "import os, torch; print(os.path.dirname(torch.__file__))"
        OUTPUT_VARIABLE ladder_torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(SKBUILD AND NOT ladder_torch_root)
        message(FATAL_ERROR "${Python_EXECUTABLE} has no PyTorch: `pip install torch` comes first, since libflash_ladder.so "
            "fits only the PyTorch that it was built with.")
    endif()
    # Debian's PyTorch keeps its headers with the system's, and those of Gloo beside them; it has nothing or links to them here.
    if(NOT EXISTS "${ladder_torch_root}/include/torch" OR IS_SYMLINK "${ladder_torch_root}/include/torch")
        set(ladder_torch_root "")
    endif()
endif()

find_path(LADDER_TORCH_INCLUDE ATen/ATen.h HINTS "${ladder_torch_root}/include")
find_path(LADDER_TORCH_API_INCLUDE torch/types.h
          HINTS "${ladder_torch_root}/include" PATH_SUFFIXES torch/csrc/api/include)
foreach(library torch torch_cpu c10)
    find_library(LADDER_TORCH_LIBRARY_${library} ${library} HINTS "${ladder_torch_root}/lib")
    if(NOT LADDER_TORCH_LIBRARY_${library} OR NOT LADDER_TORCH_INCLUDE OR NOT LADDER_TORCH_API_INCLUDE)
        message(FATAL_ERROR "libtorch was not found.\n"
            "  Debian, Ubuntu:  sudo apt install libtorch-dev\n"
            "  or any PyTorch:  pip install torch   (found through python3)\n"
            "  or set Torch_DIR to the folder of its TorchConfig.cmake.\n"
            "`./ladder doctor` shows what was looked at.")
    endif()
endforeach()
cmake_path(GET LADDER_TORCH_LIBRARY_torch_cpu PARENT_PATH LADDER_TORCH_LIBRARY)

set(ladder_torch_version_file "${LADDER_TORCH_INCLUDE}/torch/headeronly/version.h")
if(NOT EXISTS "${ladder_torch_version_file}")  # before PyTorch 2.8
    set(ladder_torch_version_file "${LADDER_TORCH_API_INCLUDE}/torch/version.h")
endif()
set(ladder_torch_version "")
foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${ladder_torch_version_file}" line REGEX "define TORCH_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND ladder_torch_version "${number}")
endforeach()
list(JOIN ladder_torch_version "." ladder_torch_version)
set(LADDER_TORCH_VERSION "${ladder_torch_version}" CACHE INTERNAL "read by common/records/record_tests.py, too")
if(LADDER_TORCH_VERSION VERSION_LESS 1.13)
    message(FATAL_ERROR "libtorch ${LADDER_TORCH_VERSION} in ${LADDER_TORCH_LIBRARY} is too old: 1.13 or newer is needed.")
endif()

add_library(ladder_torch INTERFACE)
target_include_directories(ladder_torch INTERFACE "${PROJECT_SOURCE_DIR}/common/torch/lean")  # before libtorch's own: see there
target_include_directories(ladder_torch SYSTEM INTERFACE "${LADDER_TORCH_API_INCLUDE}" "${LADDER_TORCH_INCLUDE}")
target_compile_definitions(ladder_torch INTERFACE AT_PER_OPERATOR_HEADERS)  # its headers then include the functions they need, not all
# libstdc++ comes first: PyTorch's libtorch.so exports a std::filesystem of its own, which crashes in programs that are not
# PyTorch's. --no-as-needed: operators register themselves when their library is loaded, though nothing refers to it by name.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so
                OUTPUT_VARIABLE LADDER_LIBSTDCXX OUTPUT_STRIP_TRAILING_WHITESPACE)
# A compiler may come with libstdc++ as an archive only. A program with that in it, and libtorch's shared one beside it, has two of
# std::cerr, of which one is never made: libtorch's first warning would end it. So it takes the shared one that libtorch takes.
if(NOT IS_ABSOLUTE "${LADDER_LIBSTDCXX}")
    find_library(LADDER_SHARED_LIBSTDCXX libstdc++.so.6)
    mark_as_advanced(LADDER_SHARED_LIBSTDCXX)
    if(LADDER_SHARED_LIBSTDCXX)
        set(LADDER_LIBSTDCXX "${LADDER_SHARED_LIBSTDCXX}")
    endif()
endif()
target_link_libraries(ladder_torch INTERFACE
    "${LADDER_LIBSTDCXX}" -Wl,--no-as-needed "${LADDER_TORCH_LIBRARY_torch}" "${LADDER_TORCH_LIBRARY_torch_cpu}" "${LADDER_TORCH_LIBRARY_c10}")

set(LADDER_TORCH_HAS_CUDA FALSE)
find_library(LADDER_TORCH_LIBRARY_torch_cuda torch_cuda PATHS "${LADDER_TORCH_LIBRARY}" NO_DEFAULT_PATH)
find_library(LADDER_TORCH_LIBRARY_c10_cuda c10_cuda PATHS "${LADDER_TORCH_LIBRARY}" NO_DEFAULT_PATH)
if(LADDER_TORCH_LIBRARY_torch_cuda AND LADDER_TORCH_LIBRARY_c10_cuda)
    set(LADDER_TORCH_HAS_CUDA TRUE)
    target_link_libraries(ladder_torch INTERFACE
        "${LADDER_TORCH_LIBRARY_torch_cuda}" "${LADDER_TORCH_LIBRARY_c10_cuda}")
    # What these need in turn (cuDNN, NCCL, …) they find themselves when the program starts.
    target_link_options(ladder_torch INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)
endif()

# Old PyTorch wheels were built with the old ABI of std::string; whoever links them must be too.
set(ladder_torch_config "${ladder_torch_root}/share/cmake/Torch/TorchConfig.cmake")
if(EXISTS "${ladder_torch_config}")
    file(STRINGS "${ladder_torch_config}" ladder_torch_old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    if(ladder_torch_old_abi)
        target_compile_definitions(ladder_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=0)
    endif()
endif()
