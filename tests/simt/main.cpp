// Of tests of the CPU machine alone.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/reference/run_tests.h"

int main(int argc, char** argv) {
    ::testing::InitGoogleTest(&argc, argv);
    return ladder::reference::run_tests(std::filesystem::path(argv[0]).filename().string());
}
