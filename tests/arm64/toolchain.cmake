# Compiles for 64-bit Arm on another Linux machine, and runs the result under QEMU. LADDER_ARM64_ROOT: a folder with Debian's arm64
# packages unpacked, which run.py beside this file makes.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
if(NOT IS_DIRECTORY "$ENV{LADDER_ARM64_ROOT}/usr/include")
    message(FATAL_ERROR "LADDER_ARM64_ROOT is \"$ENV{LADDER_ARM64_ROOT}\", which has no unpacked packages. "
                        "`python3 tests/arm64/run.py` unpacks them, sets it and builds.")
endif()
set(CMAKE_SYSROOT "$ENV{LADDER_ARM64_ROOT}")
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64-static;-L;${CMAKE_SYSROOT}")
