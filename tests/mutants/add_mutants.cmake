# Mutation tests of a phase's kernels: each mutant is the phase's source with one change, and must be caught.
#
#   ladder_mutants(<phase> LABEL <phaseN> KERNELS <name>… ENTRIES "<result> <function>(<Arguments>)"… TRIALS <file>)
#   ladder_mutant(<phase> <name> CAUGHT_BY <fault or reference> FILE <file.cuh> [TIMES <n>] FIND <text> REPLACE <text>)
#   ladder_mutants_end(<phase>)
#
# KERNELS are the files that the phase compiles, ENTRIES the functions of theirs that its host code calls: each takes one
# `const Arguments&`. FIND must occur exactly TIMES times (once, if not said), and every occurrence is replaced.
# CAUGHT_BY is an enumerator of simt::Fault, or `reference` for a wrong result.
#
# All .cuh files of the phase are copied for each mutant, into a namespace of its own. The phase's real host code is linked
# not with its kernels but with a switchboard, which passes each call on to the mutant that the test has chosen. A FIND
# that does not match makes the test of that mutant fail; it does not stop the build, since people who try things out in
# a kernel should get to see what the machine says.

function(ladder_mutants phase)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TRIALS" "KERNELS;ENTRIES")
    foreach(argument LABEL TRIALS KERNELS ENTRIES)
        set_property(GLOBAL PROPERTY ladder_mutants_${argument}_${phase} ${arg_${argument}})
    endforeach()
    ladder_mutant(${phase} original CAUGHT_BY reference)
endfunction()

function(ladder_mutant phase name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "CAUGHT_BY;FILE;TIMES;FIND;REPLACE" "")
    if(NOT arg_TIMES)
        set(arg_TIMES 1)
    endif()
    set(problem "${arg_FILE} is not a file of ${phase}")
    if(name STREQUAL "original")
        set(problem "")
    endif()

    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${phase}.${name}")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${phase}/*.cuh")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
    foreach(source IN LISTS sources)
        get_filename_component(file "${source}" NAME)
        file(READ "${source}" text)
        if(file STREQUAL arg_FILE)
            ladder_count(times "${text}" "${arg_FIND}")
            if(times EQUAL arg_TIMES)
                set(problem "")
                string(REPLACE "${arg_FIND}" "${arg_REPLACE}" text "${text}")
            else()
                set(problem "its text occurs ${times} times in ${phase}/${file}, not ${arg_TIMES}")
                message(WARNING "Mutant ${name}: ${problem}:\n${arg_FIND}")
            endif()
        endif()
        # On one line, so that the machine's messages give the lines of the original.
        string(REPLACE "namespace ladder::SIMT_MACHINE {"
               "namespace ladder::cpu {} namespace ladder::mutants::${name} { using namespace ladder::cpu;" text "${text}")
        string(REGEX REPLACE "#include \"${phase}/([a-z0-9_]+)\\.cuh\"" "#include \"${phase}.${name}/\\1.cuh\"" text
               "${text}")
        string(REPLACE "common/attention/dispatch.cuh" "tests/mutants/dispatch.cuh" text "${text}")
        ladder_write_if_different("${folder}/${file}" "${text}")
    endforeach()

    # Only what the change can reach is compiled again.
    get_property(kernels GLOBAL PROPERTY ladder_mutants_KERNELS_${phase})
    set(compiled)
    foreach(kernel IN LISTS kernels)
        ladder_reaches(reached ${phase} "${kernel}.cuh" "${arg_FILE}")
        if(reached OR name STREQUAL "original")
            list(APPEND compiled ${kernel})
        endif()
    endforeach()
    list(TRANSFORM compiled REPLACE "(.+)" "#include \"${phase}.${name}/\\1.cuh\"\n" OUTPUT_VARIABLE includes)
    list(JOIN includes "" includes)
    ladder_write_if_different("${folder}.cpp" "${includes}")

    if(arg_CAUGHT_BY STREQUAL "reference")
        set(fault "std::nullopt")
    else()
        set(fault "simt::Fault::${arg_CAUGHT_BY}")
    endif()
    set_property(GLOBAL PROPERTY ladder_mutants_compiled_${phase}_${name} ${compiled})
    set_property(GLOBAL APPEND PROPERTY ladder_mutants_names_${phase} ${name})
    set_property(GLOBAL APPEND_STRING PROPERTY ladder_mutants_table_${phase}
                 "    {\"${name}\", ${fault}, \"${problem}\"},\n")
endfunction()

function(ladder_mutants_end phase)
    foreach(property LABEL TRIALS KERNELS ENTRIES names table)
        get_property(${property} GLOBAL PROPERTY ladder_mutants_${property}_${phase})
    endforeach()

    set(declarations)
    set(switches)
    foreach(entry IN LISTS ENTRIES)
        if(NOT entry MATCHES "^([A-Za-z_:]+) ([A-Za-z0-9_]+)\\(([A-Za-z0-9_]+)\\)$")
            message(FATAL_ERROR "ladder_mutants: \"${entry}\" is not of the form \"result function(Arguments)\"")
        endif()
        set(result ${CMAKE_MATCH_1})
        set(function ${CMAKE_MATCH_2})
        set(arguments ${CMAKE_MATCH_3})
        set(home)
        foreach(kernel IN LISTS KERNELS)
            file(READ "${PROJECT_SOURCE_DIR}/${phase}/${kernel}.cuh" text)
            string(FIND "${text}" "\n${result} ${function}(const ${arguments}&" place)
            if(NOT place EQUAL -1)
                set(home ${kernel})
            endif()
        endforeach()
        if(NOT home)
            message(FATAL_ERROR "ladder_mutants: no kernel of ${phase} defines \"${entry}\"")
        endif()
        set(versions)
        foreach(name IN LISTS names)
            get_property(compiled GLOBAL PROPERTY ladder_mutants_compiled_${phase}_${name})
            set(version original)
            if(home IN_LIST compiled)
                set(version ${name})
                string(APPEND declarations
                       "namespace ladder::mutants::${name} { ${result} ${function}(const ${arguments}&); }\n")
            endif()
            string(APPEND versions "        mutants::${version}::${function},\n")
        endforeach()
        string(APPEND switches
               "${result} ${function}(const ${arguments}& a) {\n"
               "    constexpr decltype(&${function}) versions[] = {\n${versions}    };\n"
               "    return versions[mutants::active](a);\n}\n")
    endforeach()
    file(GLOB headers RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${phase}/*_arguments.h")
    list(PREPEND headers common/attention/arguments.h common/attention/global_bytes.h tests/mutants/mutants.h)
    list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
    list(JOIN includes "" includes)
    set(switchboard "${CMAKE_CURRENT_BINARY_DIR}/${phase}.switchboard.cpp")
    ladder_write_if_different("${switchboard}" "${includes}\n${declarations}
namespace ladder::cpu {\n${switches}}  // namespace ladder::cpu\n
namespace ladder::mutants {
std::size_t active = 0;
constexpr Mutant table[] = {\n${table}};
std::span<const Mutant> mutants() { return table; }
}  // namespace ladder::mutants\n")

    list(TRANSFORM names REPLACE "(.+)" "${CMAKE_CURRENT_BINARY_DIR}/${phase}.\\1.cpp" OUTPUT_VARIABLE files)
    add_library(${phase}_mutants OBJECT ${files} "${switchboard}")
    target_link_libraries(${phase}_mutants PUBLIC ladder_headers)
    target_include_directories(${phase}_mutants PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
    target_compile_options(${phase}_mutants PRIVATE -Wno-unknown-pragmas -Wno-unused -O1)
    # Most of the time to compile a mutant goes into the headers, which they share.
    set_target_properties(${phase}_mutants PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
    set_source_files_properties("${switchboard}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

    ladder_add_test(${phase}_mutants LABELS ${LABEL} CPU_ONLY SOURCES ${TRIALS}
                    LIBRARIES ${phase} ${phase}_mutants ladder_mutants_gtest)
endfunction()

# How often `part` occurs in `text`.
function(ladder_count result text part)
    string(REPLACE "${part}" "" without "${text}")
    string(LENGTH "${text}" before)
    string(LENGTH "${without}" after)
    string(LENGTH "${part}" length)
    math(EXPR times "(${before} - ${after}) / ${length}")
    set(${result} ${times} PARENT_SCOPE)
endfunction()

# Whether `file` of the phase is `wanted`, or includes it, directly or not.
function(ladder_reaches result phase file wanted)
    set(${result} FALSE PARENT_SCOPE)
    if(file STREQUAL wanted)
        set(${result} TRUE PARENT_SCOPE)
        return()
    endif()
    file(STRINGS "${PROJECT_SOURCE_DIR}/${phase}/${file}" lines REGEX "^#include \"${phase}/[a-z0-9_]+\\.cuh\"")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE ".*/([a-z0-9_]+\\.cuh)\".*" "\\1" included "${line}")
        ladder_reaches(reached ${phase} ${included} "${wanted}")
        if(reached)
            set(${result} TRUE PARENT_SCOPE)
            return()
        endif()
    endforeach()
endfunction()

function(ladder_write_if_different path text)
    if(EXISTS "${path}")
        file(READ "${path}" old)
        if(old STREQUAL text)
            return()
        endif()
    endif()
    file(WRITE "${path}" "${text}")
endfunction()

# What the mutation tests of all phases share.
add_library(ladder_mutants_gtest OBJECT mutants_test.cpp)
target_link_libraries(ladder_mutants_gtest PUBLIC ladder_reference GTest::gtest)
target_precompile_headers(ladder_mutants_gtest REUSE_FROM ladder_attention)
