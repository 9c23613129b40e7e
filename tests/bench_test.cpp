// ./ladder bench without timing anything: statistics, cases, checking, ratios, files, tables, plots.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "common/cli/bench/cases.h"
#include "common/cli/bench/plots.h"
#include "common/cli/bench/problem.h"
#include "common/cli/bench/report.h"
#include "common/cli/bench/statistics.h"
#include "common/cli/bench/verify.h"
#include "common/reference/gradient_oracle.h"
#include "common/reference/low_precision.h"
#include "common/rung/phase.h"

namespace ladder::cli::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Statistics, MedianAndQuartilesInterpolate) {
    const Spread s = spread_of({4, 1, 3, 2});
    EXPECT_DOUBLE_EQ(s.median, 2.5);
    EXPECT_DOUBLE_EQ(s.lower_quartile, 1.75);
    EXPECT_DOUBLE_EQ(s.upper_quartile, 3.25);
    EXPECT_DOUBLE_EQ(s.least, 1);
    EXPECT_EQ(s.samples, 4);
    EXPECT_DOUBLE_EQ(s.relative(), 0.75 / 2.5);
}

TEST(Statistics, OneOutlierMovesNeitherMedianNorQuartiles) {
    const Spread calm = spread_of({10, 11, 12, 13, 14, 15, 16});
    const Spread disturbed = spread_of({10, 11, 12, 13, 14, 15, 1000});
    EXPECT_DOUBLE_EQ(calm.median, disturbed.median);
    EXPECT_DOUBLE_EQ(calm.upper_quartile, disturbed.upper_quartile);
}

TEST(Statistics, OneSampleIsAllQuantiles) {
    const Spread s = spread_of({7});
    EXPECT_DOUBLE_EQ(s.median, 7);
    EXPECT_DOUBLE_EQ(s.relative(), 0);
}

TEST(Statistics, RefusesNothingAndNaN) {
    EXPECT_THROW(spread_of({}), std::invalid_argument);
    EXPECT_THROW(spread_of({1, std::nan("")}), std::invalid_argument);
    EXPECT_THROW(spread_of({std::numeric_limits<double>::infinity()}), std::invalid_argument);
}

Problem attention(std::int64_t queries, std::int64_t keys, Mask mask = Mask::none) {
    return {.batch = 2, .query_heads = 3, .kv_heads = 3, .queries = queries, .keys = keys, .head_dim = 8, .mask = mask};
}

TEST(Problems, VisiblePairsAreCountedOneByOne) {
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left})
        for (const auto& [queries, keys] : {std::pair{5, 5}, {3, 9}, {9, 3}, {1, 7}}) {
            std::int64_t pairs = 0;
            for (int i = 0; i < queries; ++i)
                for (int j = 0; j < keys; ++j)
                    pairs += mask == Mask::none || j <= i + (mask == Mask::causal_bottom_right ? keys - queries : 0);
            EXPECT_EQ(visible_pairs(attention(queries, keys, mask)), pairs) << queries << " x " << keys;
        }
}

TEST(Problems, UsefulOperationsAndBytes) {
    EXPECT_DOUBLE_EQ(useful_flops(attention(4, 5)), 4.0 * 2 * 3 * 4 * 5 * 8);
    EXPECT_DOUBLE_EQ(useful_flops(attention(4, 4, Mask::causal_bottom_right)), 4.0 * 2 * 3 * 10 * 8);
    Problem backward = attention(4, 5);
    backward.work = Work::backward;
    EXPECT_DOUBLE_EQ(useful_flops(backward), 2.5 * useful_flops(attention(4, 5)));
    EXPECT_DOUBLE_EQ(useful_bytes(backward), 2 * useful_bytes(attention(4, 5)));
    const Problem softmax{.work = Work::softmax, .dtype = torch::kBFloat16, .queries = 10, .keys = 100};
    EXPECT_DOUBLE_EQ(useful_bytes(softmax), 2 * 2 * 10 * 100);
    const Problem decode{.work = Work::decode,
                         .dtype = torch::kFloat16,
                         .batch = 3,
                         .query_heads = 8,
                         .kv_heads = 2,
                         .keys = 50,
                         .head_dim = 16};
    EXPECT_DOUBLE_EQ(useful_bytes(decode), 2 * 2.0 * 3 * 2 * 50 * 16) << "of the KV heads, not of the query heads";
}

TEST(Problems, TextNamesWhatMatters) {
    EXPECT_EQ(text_of(attention(64, 64, Mask::causal_bottom_right)), "f32 B2 H3 N64 D8 causal");
    Problem backward = attention(64, 64, Mask::causal_bottom_right);
    backward.work = Work::backward;
    EXPECT_EQ(text_of(backward), "f32 B2 H3 N64 D8 causal bwd");
    EXPECT_EQ(text_of({.work = Work::softmax, .dtype = torch::kBFloat16, .queries = 16, .keys = 1024}), "bf16 16x1024");
    EXPECT_EQ(text_of({.work = Work::decode,
                       .dtype = torch::kFloat16,
                       .batch = 1,
                       .query_heads = 32,
                       .kv_heads = 8,
                       .queries = 1,
                       .keys = 4096,
                       .head_dim = 128,
                       .splits = 16}),
              "f16 B1 H32/8 1x4096 D128 s16");
}

class CaseTable : public testing::TestWithParam<Scale> {};

TEST_P(CaseTable, EachProblemOfAPhaseOnce) {
    std::set<std::string> seen;
    for (const Case& c : all_cases(GetParam()))
        EXPECT_TRUE(seen.insert(std::to_string(c.phase) + text_of(c.problem)).second) << text_of(c.problem);
}

TEST_P(CaseTable, EverySweepAndEveryPhaseIsThere) {
    std::set<Sweep> sweeps;
    std::set<int> phases, rungs;
    for (const Case& c : all_cases(GetParam())) {
        sweeps.insert(c.sweeps.begin(), c.sweeps.end());
        phases.insert(c.phase);
        if (c.sweeps.contains(Sweep::ladder)) rungs.insert(c.phase);
        EXPECT_FALSE(c.entries.empty());
        EXPECT_FALSE(c.sweeps.empty());
        EXPECT_EQ(c.problem.query_heads % c.problem.kv_heads, 0);
    }
    EXPECT_EQ(sweeps.size(), 9u);
    const auto with_cases = std::ranges::count_if(ladder::phases(), [](const Phase& p) { return bool(p.bench_cases); });
    EXPECT_EQ(std::ptrdiff_t(phases.size()), with_cases);
    EXPECT_EQ(rungs, phases);
}

TEST_P(CaseTable, HeadlinesComeFirst) {
    const std::vector<Case> cases = all_cases(GetParam());
    const auto important = [](const Case& c) {
        return c.sweeps.contains(Sweep::headline) || c.sweeps.contains(Sweep::ladder);
    };
    EXPECT_TRUE(std::ranges::is_partitioned(cases, important));
    EXPECT_TRUE(important(cases.front()));
}

TEST_P(CaseTable, QuickIsASmallPartWithEveryRungAndTwoPointsOfEachCurve) {
    const std::vector<Case> all = all_cases(GetParam()), quick = quick_cases(GetParam());
    EXPECT_LT(quick.size(), all.size() / 2);
    std::set<std::string> rungs, quick_rungs;
    const auto collect = [](const std::vector<Case>& cases, std::set<std::string>& names) {
        for (const Case& c : cases) names.insert(c.entries.begin(), c.entries.end());
    };
    collect(all, rungs);
    collect(quick, quick_rungs);
    EXPECT_EQ(rungs, quick_rungs);
    const auto points = [&](auto wanted) { return std::ranges::count_if(quick, wanted); };
    EXPECT_GE(points([](const Case& c) { return c.sweeps.contains(Sweep::kv_length); }), 2);
    EXPECT_GE(points([](const Case& c) { return c.phase == 3 && c.sweeps.contains(Sweep::length); }), 2);
    EXPECT_GE(points([](const Case& c) { return c.phase == 4 && c.sweeps.contains(Sweep::length); }), 2);
}

INSTANTIATE_TEST_SUITE_P(Both, CaseTable, testing::Values(Scale::gpu, Scale::cpu),
                         [](const auto& info) { return info.param == Scale::gpu ? "gpu" : "cpu"; });

TEST(CaseTables, TheGpuTableHasWhatIsAskedOfEachPhase) {
    const std::vector<Case> cases = all_cases(Scale::gpu);
    const auto has = [&](int phase, const std::string& problem) {
        return std::ranges::any_of(cases, [&](const Case& c) {
            return c.phase == phase && text_of(c.problem) == problem && c.sweeps.contains(Sweep::headline);
        });
    };
    EXPECT_TRUE(has(0, "bf16 16384x32768"));
    EXPECT_TRUE(has(2, "f32 B4 H16 N4096 D64"));
    EXPECT_TRUE(has(3, "f32 B4 H16 N4096 D64"));
    EXPECT_TRUE(has(3, "f32 B4 H16 N4096 D128"));
    EXPECT_TRUE(has(4, "f32 B4 H16 N8192 D64 causal"));
    EXPECT_TRUE(has(4, "f32 B4 H16 N8192 D128 causal"));
    for (const char* shape : {"B1 H32 1x8192", "B1 H32 1x65536", "B1 H32/8 1x65536", "B8 H32/8 1x8192",
                              "B64 H32/8 1x4096", "B1 H32/8 1x524288"})
        EXPECT_TRUE(has(5, std::string("bf16 ") + shape + " D128")) << shape;
}

/// What plain torch makes of a problem: right by definition of the bound.
Tensors torch_result(const Problem& p, const Tensors& inputs) {
    if (p.work == Work::softmax) return {reference::softmax_low_precision(inputs[0])};
    if (p.work == Work::backward) {
        const AttentionGradients g =
            reference::gradients_low_precision(inputs[0], inputs[1], inputs[2], inputs[3], p.options());
        return {g.dq, g.dk, g.dv};
    }
    const AttentionResult r =
        reference::attention_low_precision(inputs[0], inputs[1], inputs[2], {.scale = {}, .mask = p.mask});
    return {r.out, r.lse};
}

const std::vector<Problem>& problems_to_check() {
    static const std::vector<Problem> problems = {{.work = Work::softmax, .queries = 500, .keys = 33},
                                                  {.dtype = torch::kBFloat16,
                                                   .batch = 2,
                                                   .query_heads = 4,
                                                   .kv_heads = 2,
                                                   .queries = 300,
                                                   .keys = 300,
                                                   .head_dim = 8},
                                                  {.batch = 2,
                                                   .query_heads = 4,
                                                   .kv_heads = 4,
                                                   .queries = 300,
                                                   .keys = 350,
                                                   .head_dim = 8,
                                                   .mask = Mask::causal_bottom_right},
                                                  {.work = Work::decode,
                                                   .dtype = torch::kFloat16,
                                                   .batch = 3,
                                                   .query_heads = 6,
                                                   .kv_heads = 2,
                                                   .queries = 1,
                                                   .keys = 200,
                                                   .head_dim = 16},
                                                  {.work = Work::backward,
                                                   .batch = 2,
                                                   .query_heads = 4,
                                                   .kv_heads = 2,
                                                   .queries = 50,
                                                   .keys = 70,
                                                   .head_dim = 8,
                                                   .mask = Mask::causal_bottom_right},
                                                  {.work = Work::backward,
                                                   .dtype = torch::kFloat16,
                                                   .query_heads = 5,
                                                   .kv_heads = 5,
                                                   .queries = 60,
                                                   .keys = 60,
                                                   .head_dim = 16}};
    return problems;
}

class Checking : public testing::TestWithParam<bool> {  // whether the whole is worked out, or windows
  protected:
    double largest_whole() const { return GetParam() ? 1e18 : 0; }
};

TEST_P(Checking, AcceptsWhatIsRight) {
    for (const Problem& p : problems_to_check()) {
        const Tensors inputs = make_inputs(p, torch::kCPU, 1);
        const Expected expected(p, inputs, largest_whole());
        const Verdict verdict = expected.judge(torch_result(p, inputs));
        EXPECT_TRUE(verdict.right) << text_of(p) << ": " << verdict.text;
        EXPECT_THAT(expected.description(), HasSubstr(GetParam() ? "all of it against" : "windows"));
    }
}

TEST_P(Checking, RejectsOneWrongElementOfTheFirstAndOfTheLastRow) {
    for (const Problem& p : problems_to_check()) {
        const Tensors inputs = make_inputs(p, torch::kCPU, 1);
        const Expected expected(p, inputs, largest_whole());
        const Tensors fine = torch_result(p, inputs);
        for (const std::int64_t element : {std::int64_t{0}, fine[0].numel() - 1}) {
            Tensors wrong = fine;
            wrong[0] = fine[0].clone();
            wrong[0].view({-1})[element] += 1;
            EXPECT_FALSE(expected.judge(wrong).right) << text_of(p) << " element " << element;
        }
    }
}

TEST_P(Checking, RejectsAnElementThatNobodyWroteWhereverItIs) {
    for (const Problem& p : problems_to_check()) {
        const Tensors inputs = make_inputs(p, torch::kCPU, 1);
        const Expected expected(p, inputs, largest_whole());
        const Tensors fine = torch_result(p, inputs);
        for (std::int64_t element = 3; element < fine[0].numel(); element += fine[0].numel() / 7) {
            Tensors wrong = fine;
            wrong[0] = fine[0].clone();
            wrong[0].view({-1})[element] = std::nan("");
            EXPECT_FALSE(expected.judge(wrong).right) << text_of(p) << " element " << element;
        }
    }
}

TEST_P(Checking, RejectsAWrongLogSumExpAndTheMaskLeftOut) {
    Problem p = problems_to_check()[2];
    const Tensors inputs = make_inputs(p, torch::kCPU, 1);
    const Expected expected(p, inputs, largest_whole());
    Tensors wrong = torch_result(p, inputs);
    wrong[1] = wrong[1] * 1.4427f;  // in base 2
    EXPECT_FALSE(expected.judge(wrong).right);
    p.mask = Mask::none;
    EXPECT_FALSE(expected.judge(torch_result(p, inputs)).right);
}

INSTANTIATE_TEST_SUITE_P(Both, Checking, testing::Bool(),
                         [](const auto& info) { return info.param ? "whole" : "windows"; });

TEST(Inputs, TheSameSeedGivesTheSameNumbers) {
    const Problem p = problems_to_check()[1];
    const Tensors a = make_inputs(p, torch::kCPU, 5), b = make_inputs(p, torch::kCPU, 5),
                  c = make_inputs(p, torch::kCPU, 6);
    EXPECT_TRUE(at::equal(a[1], b[1]));
    EXPECT_FALSE(at::equal(a[1], c[1]));
    EXPECT_EQ(a[1].sizes(), (std::vector<std::int64_t>{2, 2, 300, 8}));
    EXPECT_EQ(a[0].scalar_type(), torch::kBFloat16);
}

Measurement measured(const std::string& name, Role role, double milliseconds) {
    return {.name = name,
            .role = role,
            .milliseconds = spread_of({milliseconds * 0.9, milliseconds, milliseconds * 1.2}),
            .calls_per_sample = 1,
            .flops = 4e9,
            .useful_bytes = 1e6,
            .moved_bytes = 2e7,
            .right = true,
            .max_abs_error = 1e-6,
            .bound = 1e-5,
            .verdict = "out: fine"};
}

/// Phase 3 at 2 ms beside a peer at 3 ms and one that refuses, under a GEMM of 4 TFLOP/s.
Report small_report() {
    Measurement ours = measured("ours", Role::rung, 2);
    ours.launches = {{.kernel = "ours_kernel",
                      .blocks = 64,
                      .threads_per_block = 128,
                      .shared_bytes_per_block = 51200,
                      .registers_per_thread = 168,
                      .local_bytes_per_thread = 8,
                      .resident_blocks = 3,
                      .occupancy = 0.1875}};
    Report report{.environment = {.commit = "abc",
                                  .date = "2026-01-02T03:04:05Z",
                                  .device = "cuda",
                                  .device_name = "A GPU",
                                  .driver = "1.2",
                                  .torch = "2.0",
                                  .clocks_before = {{"sm_mhz", "1980"}}},
                  .seconds = 12};
    report.ceilings = {
        {.name = "gemm_f32", .what = "large", .amount = 4e9, .milliseconds = spread_of({1, 2, 3})},
        {.name = "read", .what = "long", .unit = Unit::gb_s, .amount = 1e9, .milliseconds = spread_of({1})},
        {.name = "gemm_bf16", .not_available = "no such unit"}};
    report.cases = {
        {.what =
             {.phase = 3, .entries = {"ours"}, .problem = attention(64, 64), .sweeps = {Sweep::ladder, Sweep::length}},
         .checked = "all of it",
         .input_sets = 2,
         .measurements = {ours,
                          measured("math", Role::peer, 3),
                          {.name = "cuDNN", .role = Role::peer, .not_available = "takes 16-bit types only"}}}};
    return report;
}

TEST(Reports, RatesSharesAndRatiosFollowFromMediansAndTheBestCeiling) {
    const Report report = small_report();
    const CaseResult& result = report.cases.front();
    const Measurement &ours = *result.find("ours"), &math = *result.find("math"), &cudnn = *result.find("cuDNN");
    EXPECT_DOUBLE_EQ(ours.rate(Unit::tflops), 2.0);
    EXPECT_DOUBLE_EQ(ours.rate(Unit::gb_s), 0.5);
    EXPECT_DOUBLE_EQ(report.share_of_ceiling(result, ours), 0.5);
    EXPECT_DOUBLE_EQ(ratio(result, ours, math), 1.5);
    EXPECT_EQ(ratio(result, ours, cudnn), 0) << "what was not measured has no ratio";
    EXPECT_EQ(result.find("flash"), nullptr);
}

TEST(Reports, UsefulWorkCountsInARatio) {
    Report report = small_report();
    Measurement& peer = report.cases.front().measurements[1];
    peer.flops *= 2;  // such as phase 3 without the mask, beside phase 4 with it
    EXPECT_DOUBLE_EQ(ratio(report.cases.front(), *report.cases.front().find("ours"), peer), 0.75);
}

TEST(Reports, WrongAndBrokenAreCountedForOursOnly) {
    Report report = small_report();
    EXPECT_EQ(report.wrong() + report.broken(), 0);
    report.cases.front().measurements[1].right = false;
    EXPECT_EQ(report.wrong(), 0) << "a peer's error is a note, not our failure";
    report.cases.front().measurements[0].right = false;
    EXPECT_EQ(report.wrong(), 1);
    report.cases.push_back({.what = report.cases.front().what, .error = "illegal access", .broke = true});
    EXPECT_EQ(report.broken(), 1);
    report.cases.back().broke = false;
    EXPECT_EQ(report.broken(), 0) << "a limit is no failure";
}

TEST(Reports, JsonGivesTheSameBack) {
    Report report = small_report();
    report.cases.front().measurements[1].max_abs_error = std::numeric_limits<double>::infinity();
    report.cases.push_back({.what = {.phase = 5,
                                     .entries = {"ours"},
                                     .problem = {.work = Work::decode, .dtype = torch::kBFloat16, .splits = 4},
                                     .sweeps = {Sweep::splits}},
                            .error = "out of memory",
                            .broke = true});
    const std::string text = to_json(report);
    const Report again = from_json(text, "test");
    EXPECT_EQ(to_json(again), text);
    EXPECT_EQ(again.cases.back().what.problem, report.cases.back().what.problem);
    EXPECT_EQ(to_text(again), to_text(report));
}

TEST(Reports, TextThatIsNoReportIsRefusedByName) {
    for (const char* text : {"", "{}", "[1]", R"({"kind": "flashladder bench", "format": 99})"}) {
        try {
            from_json(text, "x.json");
            ADD_FAILURE() << "accepted: " << text;
        } catch (const std::runtime_error& error) {
            EXPECT_THAT(error.what(), HasSubstr("x.json"));
        }
    }
}

TEST(Tables, NameWhatIsMissingAndWhy) {
    const std::string text = to_text(small_report());
    EXPECT_THAT(text, HasSubstr("ours"));
    EXPECT_THAT(text, HasSubstr("1.50x"));
    EXPECT_THAT(text, HasSubstr("50 %"));
    EXPECT_THAT(text, HasSubstr("cuDNN not available: takes 16-bit types only."));
    EXPECT_THAT(text, HasSubstr("not measured: no such unit"));
    EXPECT_THAT(text, HasSubstr("168"));
    EXPECT_THAT(text, HasSubstr("1 measurement, every answer right."));
}

TEST(Tables, SayWhatIsWrong) {
    Report report = small_report();
    report.cases.front().measurements[0].right = false;
    report.cases.front().measurements[0].verdict = "out: 3 of 5 elements wrong";
    const std::string text = to_text(report);
    EXPECT_THAT(text, HasSubstr("WRONG"));
    EXPECT_THAT(text, HasSubstr("3 of 5 elements wrong"));
    EXPECT_THAT(text, Not(HasSubstr("every answer right")));
}

/// All cases of the GPU's table, each contestant with the longest names and numbers that are likely.
Report full_report() {
    Report report = small_report();
    report.cases.clear();
    for (const Case& c : all_cases(Scale::gpu)) {
        CaseResult result{.what = c, .input_sets = 2};
        for (const std::string& entry : c.entries) {
            Measurement rung = measured(entry, Role::rung, 0.0995);
            rung.launches = small_report().cases.front().measurements.front().launches;
            rung.launches.front().shared_bytes_per_block = 232448;
            result.measurements.push_back(rung);
        }
        for (const Entry& entry : all_entries()) {
            if (c.problem.mask != Mask::none && c.problem.work == Work::attention && !entry.unmasked_peer.empty())
                result.measurements.push_back(measured(entry.unmasked_peer, Role::peer, 0.1));
            if (entry.first_step && std::ranges::count(c.entries, entry.name))
                result.measurements.push_back(measured(entry.first_step->name, Role::step, 0.002));
        }
        if (c.problem.work == Work::softmax)
            result.measurements.push_back(measured("torch", Role::peer, 3));
        else
            for (const char* name : {"math", "efficient", "flash", "cuDNN"})
                result.measurements.push_back(measured(name, Role::peer, 123));
        report.cases.push_back(result);
    }
    report.ceilings.push_back({.name = "copy", .unit = Unit::gb_s, .amount = 1e9, .milliseconds = spread_of({1})});
    *std::ranges::find(report.ceilings, "gemm_bf16", &Ceiling::name) = {
        .name = "gemm_bf16", .unit = Unit::tflops, .amount = 1e12, .milliseconds = spread_of({1})};
    return report;
}

TEST(Tables, AWholeRunFitsATerminalOf120Columns) {
    std::istringstream lines(to_text(full_report()));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Plots, EveryFigureOrTheReasonWhyNot) {
    for (const Plot& plot : plots_of(full_report())) {
        EXPECT_THAT(plot.script, HasSubstr("plot ")) << plot.file;
        EXPECT_TRUE(plot.not_drawn.empty()) << plot.file;
        EXPECT_THAT(plot.script, Not(HasSubstr("nan"))) << plot.file;
        EXPECT_FALSE(plot.title.empty()) << plot.file;
    }
    const std::vector<Plot> none = plots_of(Report{});
    EXPECT_EQ(none.size(), plots_of(full_report()).size());
    for (const Plot& plot : none) {
        EXPECT_TRUE(plot.script.empty()) << plot.file;
        EXPECT_FALSE(plot.not_drawn.empty()) << plot.file;
    }
}

TEST(Plots, EveryRungIsOnTheRoofline) {
    std::set<std::string> entries;
    for (const Case& c : all_cases(Scale::gpu)) entries.insert(c.entries.begin(), c.entries.end());
    for (const Plot& plot : plots_of(full_report())) {
        if (plot.file != "roofline.svg" && plot.file != "ladder.svg") continue;
        for (const std::string& entry : entries) EXPECT_THAT(plot.script, HasSubstr("'" + entry + "'")) << plot.file;
    }
}

}  // namespace
}  // namespace ladder::cli::bench
