# LADDER_SANITIZER=address or thread compiles everything with AddressSanitizer or ThreadSanitizer (presets asan and tsan).
# libtorch is not compiled here, and so not watched.
set(LADDER_SANITIZER "" CACHE STRING "Watch raw arrays and pointers with a sanitizer: address, thread, or empty for none")
set_property(CACHE LADDER_SANITIZER PROPERTY STRINGS "" address thread)

# What each compiles with. AddressSanitizer sees a stray pointer only once it has left its array, and the gap behind that;
# `bounds` looks at the index itself, in each dimension.
set(LADDER_SANITIZE_address -fsanitize=address,bounds -fno-sanitize-recover=bounds)
set(LADDER_SANITIZE_thread -fsanitize=thread)
set(LADDER_SANITIZED_OPTIONS -fno-omit-frame-pointer -g1)  # for the call stacks of reports
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND LADDER_SANITIZED_OPTIONS -Wno-maybe-uninitialized)  # its guesses are wrong in instrumented code, libtorch's headers first
endif()

# Whether programs compiled with a sanitizer can be built and run here: <result> is a command to run them with (perhaps
# empty), or NOTFOUND.
function(ladder_find_sanitizer result name)
    if(NOT DEFINED LADDER_RUN_SANITIZED_${name})
        set(program "${PROJECT_BINARY_DIR}/CMakeFiles/try_${name}")
        file(WRITE "${program}.cpp" "int main() {}\n")
        set(command NOTFOUND)
        try_compile(built "${program}" SOURCES "${program}.cpp" COMPILE_DEFINITIONS ${LADDER_SANITIZE_${name}}
                    LINK_OPTIONS ${LADDER_SANITIZE_${name}} COPY_FILE "${program}.program")
        if(built)
            # ThreadSanitizer fails where Linux scatters memory more than it expects, unless told not to.
            foreach(wrapper "" "setarch;-R")
                execute_process(COMMAND ${wrapper} "${program}.program" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
                if(failed EQUAL 0)
                    set(command "${wrapper}")
                    break()
                endif()
            endforeach()
        endif()
        set(LADDER_RUN_SANITIZED_${name} "${command}" CACHE INTERNAL "")
    endif()
    set(${result} "${LADDER_RUN_SANITIZED_${name}}" PARENT_SCOPE)
endfunction()

if(LADDER_SANITIZER)
    if(NOT LADDER_SANITIZER MATCHES "^(address|thread)$")
        message(FATAL_ERROR "LADDER_SANITIZER is \"${LADDER_SANITIZER}\"; address and thread are accepted, or nothing.")
    endif()
    if(LADDER_SANITIZER STREQUAL "thread" AND LADDER_CHECKS)
        message(FATAL_ERROR "LADDER_SANITIZER=thread needs LADDER_CHECKS=OFF: the checks keep notes that all threads of a "
            "block share. `cmake --preset tsan` sets both.")
    endif()
    ladder_find_sanitizer(LADDER_SANITIZED_COMMAND ${LADDER_SANITIZER})
    if(LADDER_SANITIZED_COMMAND STREQUAL "NOTFOUND")
        message(FATAL_ERROR "A program compiled with ${LADDER_SANITIZE_${LADDER_SANITIZER}} cannot be built and run here: with "
            "g++, the packages libasan8, libubsan1 and libtsan2 (or those of your version) are needed. ThreadSanitizer also fails "
            "where the kernel scatters memory widely and forbids `setarch -R`; `sudo sysctl vm.mmap_rnd_bits=28` helps.")
    endif()
    set(CMAKE_CROSSCOMPILING_EMULATOR "${LADDER_SANITIZED_COMMAND}")  # tests are run with it
    string(TOUPPER "${LADDER_SANITIZER}" name)
    add_compile_definitions(SIMT_${name}_SANITIZER)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${LADDER_SANITIZE_${LADDER_SANITIZER}};${LADDER_SANITIZED_OPTIONS}>")
    add_link_options(${LADDER_SANITIZE_${LADDER_SANITIZER}})
    set(LADDER_FAST_OPTIONS "")
endif()
