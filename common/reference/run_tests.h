#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace ladder::reference {

/// Runs all tests of a program of that name and returns its exit code. Where none ran, or one was skipped, that is no
/// pass, and is said.
inline int run_tests(const std::string& program) {
    constexpr int kNothingRan = 2;
    const int result = RUN_ALL_TESTS();
    if (GTEST_FLAG_GET(list_tests)) return result;
    const auto& tests = *::testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() == 0) {
        std::cerr << program << ": no test ran; the filter \"" << GTEST_FLAG_GET(filter) << "\" selects none\n";
        return kNothingRan;
    }
    if (tests.skipped_test_count() > 0) {
        std::cerr << program << ": " << tests.skipped_test_count() << " tests skipped; a skipped test is not a pass\n";
        return EXIT_FAILURE;
    }
    return result;
}

}  // namespace ladder::reference
