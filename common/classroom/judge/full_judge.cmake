# The judge of the whole repository, which knows the answers by libtorch, and the program that records them for hand-outs.

# What the phases bring to the judge: the sources in <phase>/rung/judge, which define Part classroom::<phase>::part().
file(STRINGS "${PROJECT_SOURCE_DIR}/common/rung/phases.txt" phases)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/common/rung/phases.txt")
set(part_sources)
set(part_declarations)
set(part_calls)
foreach(phase IN LISTS phases)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${phase}/rung/judge/*.cpp")
    if(sources)
        list(APPEND part_sources ${sources})
        string(APPEND part_declarations "namespace ${phase} {\nPart part();\n}\n")
        string(APPEND part_calls "        ${phase}::part(),\n")
    endif()
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/parts_of_phases.cpp" CONTENT "#include \"common/classroom/judge/parts.h\"

namespace ladder::classroom {
${part_declarations}
const std::vector<Part>& parts() {
    static const std::vector<Part> kParts{
${part_calls}    };
    return kParts;
}

}  // namespace ladder::classroom
")

set(judging_sources ${judge_sources})
list(REMOVE_ITEM judging_sources judge/main.cpp)
add_library(classroom_judging OBJECT
    ${judging_sources} judge/attend.cpp judge/attention_trials.cpp judge/examine_attention.cpp judge/online_attention.cpp
    judge/parts.cpp judge/record.cpp judge/resemblance.cpp judge/spread.cpp judge/tensors.cpp judge/trials.cpp
    "${CMAKE_CURRENT_BINARY_DIR}/parts_of_phases.cpp" ${part_sources})
target_link_libraries(classroom_judging PUBLIC ladder_reference ladder_common ladder_fmt nlohmann_json::nlohmann_json)
set_target_properties(classroom_judging PROPERTIES UNITY_BUILD ON)  # as ladder_simt
target_precompile_headers(classroom_judging PRIVATE ../torch/torch.h <nlohmann/json.hpp>)

add_executable(classroom_judge judge/main.cpp)
add_executable(classroom_recorder judge/record_main.cpp)
foreach(program classroom_judge classroom_recorder)
    target_link_libraries(${program} PRIVATE classroom_judging)
endforeach()
list(APPEND targets classroom_recorder)
