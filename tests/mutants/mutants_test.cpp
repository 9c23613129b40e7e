// Every mutant must be caught, in the way that its line in CMakeLists.txt says; the original must not.

#include "tests/mutants/mutants.h"

#include <gtest/gtest.h>

#include "common/attention/allocate.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {

Trial attention_trial(reference::AttentionEntry entry, reference::AttentionCase problem,
                      std::optional<torch::Tensor> kv_lengths) {
    return [=] {
        Outcome outcome;
        const auto remembering_faults = [&](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                            const AttentionOptions& options) {
            try {
                return entry(q, k, v, options);
            } catch (const simt::MachineError& error) {
                outcome.fault = error.report().fault;
                throw;
            }
        };
        const auto verdict =
            reference::matches_reference(remembering_faults, problem, torch::kCPU, reference::Lse::present, kv_lengths);
        if (!verdict) outcome.complaint = verdict.message();
        return outcome;
    };
}

Trial trial(std::function<::testing::AssertionResult()> check) {
    return [=]() -> Outcome {
        try {
            const ::testing::AssertionResult verdict = check();
            return {.fault = {}, .complaint = verdict ? "" : verdict.message()};
        } catch (const simt::MachineError& error) {
            return {.fault = error.report().fault, .complaint = error.what()};
        }
    };
}

std::vector<Trial> attention_trials(const reference::AttentionEntry& entry) {
    using reference::Family, reference::Layout;
    const reference::AttentionCase cases[] = {
        {.name = "one_key", .query_length = 12, .key_length = 1, .head_dim = 32, .family = Family::equal_scores},
        {.name = "given_scale", .query_length = 9, .key_length = 64, .head_dim = 8, .options = {.scale = 0.7}},
        {.name = "odd_columns", .query_length = 33, .key_length = 131, .head_dim = 27},
        {.name = "minus_1000",
         .query_length = 20,
         .key_length = 129,
         .head_dim = 32,
         .family = Family::scores_near_minus_1000},
        {.name = "huge",
         .query_heads = 2,
         .kv_heads = 2,
         .query_length = 40,
         .key_length = 140,
         .head_dim = 16,
         .family = Family::one_huge_logit},
        {.name = "unaligned_rows",
         .query_heads = 2,
         .kv_heads = 1,
         .query_length = 65,
         .key_length = 193,
         .head_dim = 24,
         .family = Family::rising_scores,
         .layout = Layout::padded_rows},
        {.name = "grouped_heads",
         .batch = 2,
         .query_heads = 4,
         .kv_heads = 2,
         .query_length = 70,
         .key_length = 150,
         .head_dim = 32},
    };
    std::vector<Trial> trials;
    for (const reference::AttentionCase& problem : cases) trials.push_back(attention_trial(entry, problem));
    return trials;
}

namespace {

const PoisonOutputs poison_outputs;  // an element that is never written stays NaN

std::string name_of(const std::optional<simt::Fault>& fault) {
    return fault ? std::string(simt::name_of(*fault)) : "a result that the reference rejects";
}

class Mutants : public ::testing::TestWithParam<std::size_t> {
  protected:
    void SetUp() override { active = GetParam(); }
    void TearDown() override { active = 0; }
};

TEST(Original, PassesEveryTrial) {
    for (const Trial& trial : trials()) EXPECT_EQ(trial().complaint, "");
}

TEST_P(Mutants, IsCaught) {
    const Mutant& mutant = mutants()[GetParam()];
    ASSERT_STREQ(mutant.problem, "") << "the table in tests/mutants/CMakeLists.txt must follow the kernel";
    std::string seen;
    for (const Trial& trial : trials()) {
        const Outcome outcome = trial();
        if (outcome.complaint.empty()) continue;
        if (outcome.fault == mutant.fault) return;
        seen += "\n" + outcome.complaint;
    }
    ADD_FAILURE() << "expected " << name_of(mutant.fault)
                  << (seen.empty() ? ", but every trial passed: this mistake would go unnoticed" : ", got" + seen);
}

std::vector<std::size_t> all_but_the_original() {
    std::vector<std::size_t> numbers;
    for (std::size_t n = 1; n < mutants().size(); ++n) numbers.push_back(n);
    return numbers;
}

INSTANTIATE_TEST_SUITE_P(Table, Mutants, ::testing::ValuesIn(all_but_the_original()),
                         [](const auto& info) { return std::string(mutants()[info.param].name); });

}  // namespace
}  // namespace ladder::mutants
