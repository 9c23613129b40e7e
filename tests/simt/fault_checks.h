#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simt/testing.h"

namespace simt::testing {

using BlockIndex = std::array<unsigned, 3>;

/// A thread, and the mark on the source line where it stands. Nobody, and any line, unless said otherwise. The block
/// where the message has to name it.
struct Party {
    int thread = -1;
    const char* mark = nullptr;
    std::optional<BlockIndex> block = {};
};

/// What a diagnosis must be.
struct Expected {
    Fault fault;
    BlockIndex block = {};
    Party first, second = {};
    std::vector<std::string> says = {};
};

/// Every thread adds its number to a sum in shared memory, with barriers: a kernel that works if the machine does.
inline void expect_machine_still_works() {
    int sum = 0;
    run({.block = 96, .shared_bytes = 96 * sizeof(int)}, [&sum] {
        const auto part = SharedArena().tile<int, 1, 96>("part");
        const int thread = int(threadIdx.x);
        part(0, thread) = thread;
        __syncthreads();
        if (thread == 0)
            for (int i = 0; i < 96; ++i) sum += part(0, i);
    });
    EXPECT_EQ(sum, 95 * 96 / 2);
}

/// "simt/file.cpp:12" for the line of the test's file with the comment "// @mark", as messages have it.
inline std::string place(const std::string& mark, const char* test = __builtin_FILE()) {
    const std::string file = std::filesystem::path(test).filename();
    return "simt/" + file + ":" + std::to_string(line_of(file, mark));
}

inline void expect_witness(const Witness& witness, const Party& party, const std::string& message, const char* test) {
    EXPECT_EQ(witness.thread, party.thread) << message;
    EXPECT_EQ(witness.block, party.block) << message;
    if (!party.mark) return;
    EXPECT_EQ(witness.site.text(), place(party.mark, test)) << party.mark << "\n" << message;
    const std::string who =
        "thread " + std::to_string(party.thread) + (party.block ? " of " + text_of(*party.block) : "");
    EXPECT_NE(message.find("\n  " + who + " at " + place(party.mark, test) + "\n"), std::string::npos) << who << "\n"
                                                                                                       << message;
}

/// The machine diagnoses `expected` of a kernel that stands in the test's file, and goes on working.
template <class Kernel>
void expect_fault(const Shape& shape, Kernel kernel, const Expected& expected, const char* test = __builtin_FILE()) {
    const auto error = fault_of(shape, kernel, "faulty_kernel");
    ASSERT_TRUE(error) << "not found: " << name_of(expected.fault);
    // Every place ends its line, the last one too.
    const std::string message = std::string(error->what()) + "\n";
    const MachineError::Report& report = error->report();
    EXPECT_EQ(report.fault, expected.fault) << message;
    EXPECT_EQ(report.kernel, "faulty_kernel");
    EXPECT_EQ(report.block, expected.block) << message;
    EXPECT_TRUE(
        message.starts_with(std::string(name_of(expected.fault)) + " in faulty_kernel, " + text_of(expected.block)))
        << message;
    expect_witness(report.first, expected.first, message, test);
    expect_witness(report.second, expected.second, message, test);
    EXPECT_FALSE(report.advice.empty()) << message;
    for (const std::string& words : expected.says)
        EXPECT_NE(message.find(words), std::string::npos) << '"' << words << "\" is not in:\n" << message;
    expect_machine_still_works();
}

template <class Kernel>
void expect_clean(const Shape& shape, Kernel kernel) {
    const auto error = fault_of(shape, kernel);
    EXPECT_FALSE(error) << error->what();
}

}  // namespace simt::testing
