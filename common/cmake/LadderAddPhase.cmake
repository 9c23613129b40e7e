# The one list of the phases, a folder a line. Everything that goes through all of them goes through LADDER_PHASES.
file(STRINGS "${PROJECT_SOURCE_DIR}/common/rung/phases.txt" LADDER_PHASES)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/common/rung/phases.txt")

# phase3_… -> phase3
function(ladder_phase_label result folder)
    string(REGEX REPLACE "_.*" "" label "${folder}")
    set(${result} "${label}" PARENT_SCOPE)
endfunction()

# ladder_add_phase(<folder> [KERNELS <name>…] [HOPPER_KERNELS <name>…] [SOURCES <file>…] [TESTS <file>…] [CALLS_ATTENTION])
#
# Builds one phase. Each kernel file <name>.cuh is compiled once for each machine: by the C++ compiler for the CPU machine,
# by nvcc for the GPU. Those of HOPPER_KERNELS, whose instructions exist on sm_90a alone, nvcc compiles for that and nothing else.
# Tests run on the CPU, and a second time on the GPU where there is one. CALLS_ATTENTION: it calls attention(), which takes the best
# of all phases' kernels, so that whoever links this phase gets all of them.
#
#   <folder>        object library: kernels for every machine of this build, and the host entries
#   <folder>_rung   object library: rung/rung.cpp, how the phase describes itself to the program (common/rung/phase.h)
#   <folder>_quiz   object library: rung/quiz.cpp, its questions (common/rung/question.h), where it has some
#   <folder>_test   the tests, as CTest <folder>.cpu and <folder>.cuda with label phaseN
function(ladder_add_phase folder)
    cmake_parse_arguments(PARSE_ARGV 1 phase "CALLS_ATTENTION" "" "KERNELS;HOPPER_KERNELS;SOURCES;TESTS")

    if(phase_KERNELS OR phase_HOPPER_KERNELS)
        ladder_add_kernels(${folder} ${phase_KERNELS} HOPPER_KERNELS ${phase_HOPPER_KERNELS})
    endif()
    if(phase_SOURCES)
        add_library(${folder} OBJECT ${phase_SOURCES})
        target_link_libraries(${folder} PUBLIC ladder_headers ladder_torch)
        target_compile_options(${folder} PRIVATE ${LADDER_FAST_OPTIONS})
        target_precompile_headers(${folder} REUSE_FROM ladder_attention)
        set_target_properties(${folder} PROPERTIES LADDER_CALLS_ATTENTION "${phase_CALLS_ATTENTION}")
    endif()
    if(LADDER_LIBRARY_ONLY)
        return()
    endif()
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/rung/rung.cpp")
        message(FATAL_ERROR "There is no ${folder}/rung/rung.cpp, in which each phase describes itself: see common/rung/phase.h.")
    endif()
    foreach(part rung quiz)
        if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/rung/${part}.cpp")
            add_library(${folder}_${part} OBJECT rung/${part}.cpp)
            target_link_libraries(${folder}_${part} PUBLIC ladder_headers ladder_torch ladder_fmt)
            target_precompile_headers(${folder}_${part} REUSE_FROM ladder_attention)
        endif()
    endforeach()
    ladder_phase_label(label ${folder})
    if(NOT TARGET ${label}_tests)
        add_custom_target(${label}_tests)  # presets name it, whether or not there are tests as yet
    endif()
    if(phase_TESTS)
        ladder_add_test(${folder} LABELS ${label} SOURCES ${phase_TESTS} PHASES ${folder})
    endif()
endfunction()

# ladder_list_phases(<target> <phase>…): an object library that knows these phases, and no other, by name: it defines phases()
# and quiz::all_topics() by calling describe() and questions() of each. <target>_topics has the second.
function(ladder_list_phases target)
    set(declared)
    set(described)
    set(declared_questions)
    set(asked)
    foreach(phase IN LISTS ARGN)
        string(APPEND declared "namespace ${phase} {\nPhase describe();\n}\n")
        string(APPEND described "        phase_in(\"${phase}\", ${phase}::describe()),\n")
        if(TARGET ${phase}_quiz)
            string(APPEND declared_questions "namespace ${phase} {\nstd::vector<quiz::Topic> questions();\n}\n")
            string(APPEND asked "        add(${phase}::questions());\n")
        endif()
    endforeach()
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"common/rung/phase.h\"

namespace ladder {
${declared}
const std::vector<Phase>& phases() {
    static const std::vector<Phase> all = {
${described}    };
    return all;
}

}  // namespace ladder
")
    set(topics_source "${CMAKE_CURRENT_BINARY_DIR}/${target}_topics.cpp")
    file(CONFIGURE OUTPUT "${topics_source}" CONTENT "#include \"common/rung/question.h\"

namespace ladder {
${declared_questions}
const std::vector<quiz::Topic>& quiz::all_topics() {
    static const std::vector<Topic> all = [] {
        std::vector<Topic> topics;
        const auto add = [&](const std::vector<Topic>& more) { topics.insert(topics.end(), more.begin(), more.end()); };
${asked}        return topics;
    }();
    return all;
}

}  // namespace ladder
")
    add_library(${target} OBJECT EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(${target} PUBLIC ladder_headers ladder_torch)
    target_precompile_headers(${target} REUSE_FROM ladder_attention)
    add_library(${target}_topics OBJECT EXCLUDE_FROM_ALL "${topics_source}")
    target_link_libraries(${target}_topics PUBLIC ladder_headers)
endfunction()

# ladder_link_rungs(<target> <list> <phase>…): what a program needs to go through the phases of a list, kernels and all.
function(ladder_link_rungs target list)
    ladder_link_phases(${target} ${ARGN})
    foreach(phase IN LISTS ARGN)
        target_link_libraries(${target} PRIVATE ${phase}_rung)
    endforeach()
    target_link_libraries(${target} PRIVATE ${list} ladder_rung)
endfunction()

# ladder_link_questions(<target> <list> <phase>…): and their questions.
function(ladder_link_questions target list)
    foreach(phase IN LISTS ARGN)
        if(TARGET ${phase}_quiz)
            target_link_libraries(${target} PRIVATE ${phase}_quiz)
        endif()
    endforeach()
    target_link_libraries(${target} PRIVATE ${list}_topics ladder_quiz)
endfunction()

# How kernels are compiled for the CPU machine, with its checks and without. Pragmas for GPUs, such as `#pragma unroll`, mean nothing to
# a C++ compiler; -O3 or -fpeel-loops, and a limit high enough for a thread's part of a tile, unroll without being asked. That halves a
# kernel's time. Vectors of its sums take another fifth off a checked kernel's, and longer to compile not at all. What -O3 does besides
# makes it faster by a tenth at most, takes as long again to compile, and joins calls that the machine has to tell apart.
# -g1: by the lines of two threads' code the machine tells calls of one helper from code that the compiler has copied.
set(LADDER_CHECKED_KERNEL_OPTIONS -Wno-unknown-pragmas -g1)
set(LADDER_UNCHECKED_KERNEL_OPTIONS -Wno-unknown-pragmas)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT LADDER_SANITIZER)
    set(unrolling)
    set(checked -O3)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        set(unrolling --param=max-completely-peeled-insns=800 --param=max-completely-peel-times=64)
        set(checked -O1 -finline-functions -fpeel-loops -ftree-vectorize -ftree-vrp)
    endif()
    list(APPEND LADDER_CHECKED_KERNEL_OPTIONS ${checked} ${unrolling})
    list(APPEND LADDER_UNCHECKED_KERNEL_OPTIONS -O3 ${unrolling})
endif()
set(LADDER_KERNEL_OPTIONS ${LADDER_CHECKED_KERNEL_OPTIONS})
set(LADDER_KERNEL_DEFINITIONS)
if(NOT LADDER_CHECKS)
    set(LADDER_KERNEL_OPTIONS ${LADDER_UNCHECKED_KERNEL_OPTIONS})
    set(LADDER_KERNEL_DEFINITIONS SIMT_UNCHECKED)
endif()

# ladder_add_kernels(<folder> <name>… [HOPPER_KERNELS <name>…]): object libraries <folder>_kernels_cpu and <folder>_kernels_cuda,
# with _ for / in <folder>.
function(ladder_add_kernels folder)
    cmake_parse_arguments(PARSE_ARGV 1 kernels "" "" "HOPPER_KERNELS")
    string(REPLACE "/" "_" target "${folder}")
    set(cpu_files)
    set(cuda_files)
    set(hopper_files)
    foreach(name IN LISTS kernels_UNPARSED_ARGUMENTS kernels_HOPPER_KERNELS)
        set(include "#include \"${folder}/${name}.cuh\"\n")
        file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpu.cpp" CONTENT "${include}")
        file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}.cuda.cu" CONTENT "${include}")
        list(APPEND cpu_files "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpu.cpp")
        if(name IN_LIST kernels_HOPPER_KERNELS)
            list(APPEND hopper_files "${CMAKE_CURRENT_BINARY_DIR}/${name}.cuda.cu")
        else()
            list(APPEND cuda_files "${CMAKE_CURRENT_BINARY_DIR}/${name}.cuda.cu")
        endif()
    endforeach()

    add_library(${target}_kernels_cpu OBJECT ${cpu_files})
    target_link_libraries(${target}_kernels_cpu PUBLIC ladder_headers)
    target_compile_options(${target}_kernels_cpu PRIVATE ${LADDER_KERNEL_OPTIONS})
    target_compile_definitions(${target}_kernels_cpu PRIVATE ${LADDER_KERNEL_DEFINITIONS})

    if(NOT LADDER_CUDA_KERNELS)
        return()
    endif()
    set(library ${target}_kernels_cuda)
    if(cuda_files)
        ladder_compile_for_gpus(${library} "${LADDER_CUDA_ARCHITECTURES}" ${cuda_files})
    endif()
    if(cuda_files AND hopper_files)  # whoever links the one gets the other
        set(library ${target}_hopper_kernels_cuda)
        target_sources(${target}_kernels_cuda INTERFACE $<TARGET_OBJECTS:${library}>)
    endif()
    if(hopper_files)
        ladder_compile_for_gpus(${library} 90a-real ${hopper_files})  # never `native`: that of an H200 may be 90, without the a
        set(launcher "${PROJECT_SOURCE_DIR}/common/cmake/no_serialized_products" ${CMAKE_CUDA_COMPILER_LAUNCHER})
        set_target_properties(${library} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
    endif()
endfunction()

function(ladder_compile_for_gpus library architectures)
    add_library(${library} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    target_link_libraries(${library} PUBLIC ladder_headers)
    set_target_properties(${library} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    add_dependencies(cuda_kernels ${library})
endfunction()

# Everything that a program using <phase>… consists of.
function(ladder_link_phases target)
    set(linked ${ARGN})
    foreach(phase IN LISTS ARGN)
        if(TARGET ${phase})
            get_target_property(calls_attention ${phase} LADDER_CALLS_ATTENTION)
            if(calls_attention)
                list(APPEND linked ${LADDER_PHASES})
            endif()
        endif()
    endforeach()
    list(REMOVE_DUPLICATES linked)
    foreach(phase IN LISTS linked)
        if(TARGET ${phase})
            target_link_libraries(${target} PRIVATE ${phase})
        endif()
        if(TARGET ${phase}_kernels_cpu)
            target_link_libraries(${target} PRIVATE ${phase}_kernels_cpu)
            if(LADDER_WITH_CUDA)
                target_link_libraries(${target} PRIVATE ${phase}_kernels_cuda)
            endif()
        endif()
    endforeach()
    target_link_libraries(${target} PRIVATE ladder_common)
endfunction()

# The program can then name its kernels with their template arguments (simt::symbol_of), also when it is stripped.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kernels.symbols" CONTENT "{ _ZN6ladder3cpu*_kernel*; };\n")
function(ladder_export_kernels target)
    target_link_options(${target} PRIVATE "LINKER:--dynamic-list=${PROJECT_BINARY_DIR}/kernels.symbols")
    target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()

# In the place of a test that this build cannot run: CTest lists it as not run, with the reason.
function(ladder_add_test_not_run name labels reason)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "NOT RUN: ${name}: ${reason}")
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_REGULAR_EXPRESSION "NOT RUN")
endfunction()

# ladder_add_test(<name> LABELS <label>… SOURCES <file>… [PHASES <phase>…] [LIBRARIES <library>…] [CPU_ONLY] [NEEDS_CHECKS])
#
# A GoogleTest program <name>_test on the reference harness. A test that cannot run, for want of a GPU, exits with 77 and
# CTest lists it as not run; it never counts as passed. NEEDS_CHECKS: it is about the checked CPU machine, and not run in a
# build without checks.
function(ladder_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 test "CPU_ONLY;NEEDS_CHECKS" "" "LABELS;SOURCES;PHASES;LIBRARIES")
    if(test_NEEDS_CHECKS AND NOT LADDER_CHECKS)
        ladder_add_test_not_run(${name}.cpu "${test_LABELS};cpu" "it tests the checked CPU machine, and LADDER_CHECKS is OFF")
        return()
    endif()
    add_executable(${name}_test ${test_SOURCES})
    target_link_libraries(${name}_test PRIVATE ladder_reference_gtest ladder_reference_checks ladder_reference ${test_LIBRARIES})
    ladder_link_phases(${name}_test ${test_PHASES})
    target_compile_options(${name}_test PRIVATE -fPIC)  # as the precompiled header was
    target_precompile_headers(${name}_test REUSE_FROM ladder_reference_gtest)
    target_compile_definitions(${name}_test PRIVATE LADDER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # `cmake --build … --target phase3_tests` builds all that CTest runs under the label phase3.
    foreach(label IN LISTS test_LABELS)
        if(NOT TARGET ${label}_tests)
            add_custom_target(${label}_tests)
        endif()
        add_dependencies(${label}_tests ${name}_test)
    endforeach()
    set(devices cpu)
    if(NOT test_CPU_ONLY)
        list(APPEND devices cuda)
    endif()
    foreach(device IN LISTS devices)
        add_test(NAME ${name}.${device} COMMAND ${name}_test --device=${device} --gtest_brief=1)
        set_tests_properties(${name}.${device} PROPERTIES
            LABELS "${test_LABELS};${device}" SKIP_RETURN_CODE 77 TIMEOUT 900)
    endforeach()
endfunction()
