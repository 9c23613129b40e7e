// What a test program says when it is asked for what is not there.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "common/reference/test_device.h"

namespace ladder::reference {
namespace {

struct ProgramRun {
    int exit_code;
    std::string output;
};

/// Runs this very binary again with other arguments, through the emulator that a cross-compiled one needs. A share of
/// the cases, which this run may have been given, is not for that one.
ProgramRun run_self(const std::string& arguments) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command =
        "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX " LADDER_EMULATOR " '" + self + "' " + arguments + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    if (!pipe) throw std::runtime_error("cannot run " + command);
    ProgramRun run{};
    std::array<char, 512> line{};
    while (std::fgets(line.data(), line.size(), pipe)) run.output += line.data();
    const int status = ::pclose(pipe);
    run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return run;
}

TEST(TestProgram, fails_when_the_filter_selects_nothing) {
    const auto run = run_self("--gtest_filter=NoSuchTest.*");
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_NE(run.output.find("no test ran"), std::string::npos) << run.output;
}

TEST(TestProgram, says_not_run_instead_of_passing_without_a_gpu) {
    const auto run = run_self("--device=cuda --gtest_filter=Cases.describe_themselves");
    const bool not_run = run.output.rfind("NOT RUN: ", 0) == 0;
    EXPECT_EQ(run.exit_code, not_run ? 77 : 0) << run.output;
    EXPECT_FALSE(not_run && test_device().is_cuda()) << run.output;
    const auto* expected = not_run ? " on cuda: " : "[  PASSED  ] 1 test";
    EXPECT_NE(run.output.find(expected), std::string::npos) << run.output;
    EXPECT_TRUE(!not_run || std::count(run.output.begin(), run.output.end(), '\n') == 1) << run.output;
}

TEST(TestProgram, refuses_unknown_arguments_and_still_lists_tests) {
    EXPECT_EQ(run_self("--device=tpu").exit_code, 1);
    EXPECT_EQ(run_self("--devise=cpu").exit_code, 1);
    const auto list = run_self("--gtest_list_tests");
    EXPECT_EQ(list.exit_code, 0);
    EXPECT_NE(list.output.find("refuses_unknown_arguments"), std::string::npos);
}

}  // namespace
}  // namespace ladder::reference
