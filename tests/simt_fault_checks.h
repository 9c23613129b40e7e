#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/simt_testing.h"

namespace simt::testing {

/// A thread, and the mark on the source line where it stands.
struct Party {
    int thread;
    const char* mark;
};

/// Expectations about kernels that stand in one test file.
class FaultChecks {
  public:
    explicit FaultChecks(std::string file) : file_(std::move(file)) {}

    /// "tests/file.cpp:12" for the line with the comment "// @mark", as messages have it.
    std::string place(const std::string& mark) const {
        return "tests/" + file_ + ":" + std::to_string(line_of(file_, mark));
    }

    template <class Kernel>
    void expect(const Shape& shape, Kernel kernel, Fault fault, Party first, std::optional<Party> second,
                const std::vector<std::string>& says) const {
        const auto error = fault_of(shape, kernel);
        ASSERT_TRUE(error) << "not found: " << name_of(fault);
        const std::string message = error->what();
        EXPECT_EQ(error->report().fault, fault) << message;
        expect_witness(error->report().first, first, message);
        expect_witness(error->report().second, second, message);
        for (const std::string& words : says)
            EXPECT_NE(message.find(words), std::string::npos) << '"' << words << "\" is not in:\n" << message;
    }

  private:
    void expect_witness(const Witness& witness, const std::optional<Party>& party, const std::string& message) const {
        EXPECT_EQ(witness.thread, party ? party->thread : -1) << message;
        if (party) {
            EXPECT_EQ(witness.site.text(), place(party->mark)) << message;
        }
    }

    std::string file_;
};

template <class Kernel>
void expect_clean(const Shape& shape, Kernel kernel) {
    const auto error = fault_of(shape, kernel);
    EXPECT_FALSE(error) << error->what();
}

}  // namespace simt::testing
