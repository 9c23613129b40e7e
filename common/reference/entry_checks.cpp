#include "common/reference/entry_checks.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "common/reference/per_head.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"

namespace ladder::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<std::pair<Mask, const char*>, 3> kMaskNames{{{Mask::none, "none"},
                                                                  {Mask::causal_bottom_right, "causal_bottom_right"},
                                                                  {Mask::causal_top_left, "causal_top_left"}}};
constexpr auto kNoSuchMask = static_cast<Mask>(9);

std::string name_of(Mask mask) {
    for (const auto& [known, name] : kMaskNames)
        if (mask == known) return name;
    return "mask " + std::to_string(static_cast<int>(mask));
}

template <class... Part>
std::string text(const Part&... part) {
    std::ostringstream stream;
    (stream << ... << part);
    return stream.str();
}

/// Gathers what is wrong, each under the name of its case.
class Findings {
  public:
    /// Looks at one case; what that throws is wrong, too.
    template <class Look>
    void in_case(std::string name, const Look& look) {
        ++cases_;
        case_ = std::move(name);
        try {
            look();
        } catch (const std::exception& error) {
            wrong("threw: " + message_of(error));
        }
    }

    void wrong(const std::string& what) { wrong_ += "\n" + case_ + ": " + what; }

    void expect(bool holds, const std::string& otherwise) {
        if (!holds) wrong(otherwise);
    }

    void expect(const ::testing::AssertionResult& result) { expect(result, result.message()); }
    void expect(const Comparison& verdict) { expect(verdict.passed, verdict.report); }

    /// Having looked at nothing proves nothing, so that counts as failed.
    ::testing::AssertionResult verdict() const {
        if (cases_ == 0) return ::testing::AssertionFailure() << "no cases to look at";
        if (!wrong_.empty()) return ::testing::AssertionFailure() << "out of " << cases_ << " cases" << wrong_;
        return ::testing::AssertionSuccess() << cases_ << " cases";
    }

  private:
    int cases_ = 0;
    std::string case_, wrong_;
};

/// Refused with these words, and before anything was launched.
void expect_refusal(Findings& findings, const std::function<void()>& call, const std::vector<std::string>& mentions) {
    const simt::LaunchLog log;
    findings.expect(throws_mentioning(call, mentions));
    findings.expect(log.records().empty(), "something was launched");
}

/// Calls that differ from a good one only in a mask that is not among `accepted`.
std::vector<BadInput> refused_masks(const std::vector<Mask>& accepted, torch::ScalarType dtype) {
    std::vector<std::string> mentions{"mask:"};
    for (const Mask mask : accepted) mentions.push_back(name_of(mask));

    std::vector<BadInput> refused;
    const auto add_unless_accepted = [&](Mask mask, std::vector<std::string> mentions) {
        if (std::ranges::find(accepted, mask) != accepted.end()) return;
        const auto tensor = at::ones({1, 1, 4, 8}, at::TensorOptions().dtype(dtype).device(test_device()));
        refused.push_back({.name = name_of(mask),
                           .q = tensor,
                           .k = tensor,
                           .v = tensor,
                           .options = {.scale = {}, .mask = mask},
                           .mentions = std::move(mentions)});
    };
    for (const auto& [mask, name] : kMaskNames) {
        auto with_its_name = mentions;
        with_its_name.push_back(name);
        add_unless_accepted(mask, std::move(with_its_name));
    }
    add_unless_accepted(kNoSuchMask, mentions);
    return refused;
}

template <class Function>
::testing::AssertionResult refuses(const Function& function, const EntryTraits& traits) {
    Findings findings;
    const auto look = [&](const BadInput& bad) {
        findings.in_case(text(bad.name, ", ", name_of(bad.options.mask)), [&] {
            expect_refusal(
                findings, [&] { function(bad.q, bad.k, bad.v, bad.options); }, bad.mentions);
        });
    };
    for (const torch::ScalarType dtype : traits.dtypes) {
        for (const Mask mask : traits.masks) {
            for (auto& bad : bad_inputs(test_device(), dtype)) {
                bad.options.mask = mask;
                look(bad);
            }
        }
        for (const auto& bad : refused_masks(traits.masks, dtype)) look(bad);
    }
    return findings.verdict();
}

void expect_same_bits(Findings& findings, const AttentionResult& a, const AttentionResult& b, Lse lse) {
    if (!a.out.defined() || !b.out.defined()) {
        findings.wrong("out is undefined");
    } else {
        findings.expect(same_bits(a.out, b.out), "out differs");
    }
    if (lse == Lse::absent) return;
    if (!a.lse.defined() || !b.lse.defined()) {
        findings.wrong("lse is undefined");
    } else {
        findings.expect(same_bits(a.lse, b.lse), "lse differs");
    }
}

/// Inputs of positive numbers, [1, 2, 5, D] and [1, 2, keys, D]: one infinite element decides the sign of every score
/// that it enters.
AttentionInputs positive_inputs(int64_t keys, int64_t head_dim, torch::ScalarType dtype) {
    auto generator = at::detail::createCPUGenerator(/*seed=*/1);
    const auto uniform = [&](at::IntArrayRef sizes) {
        return at::rand(sizes, generator, at::kFloat).to(test_device());
    };
    return {(uniform({1, 2, 5, head_dim}) + 0.5).to(dtype), (uniform({1, 2, keys, head_dim}) + 0.5).to(dtype),
            uniform({1, 2, keys, head_dim}).to(dtype)};
}

bool finite_but_for_row(int64_t row, const torch::Tensor& tensor) {
    const auto finite = tensor.isfinite();
    finite.select(2, row).fill_(true);
    return finite.all().item<bool>();
}

/// Calls `look` with every dtype, mask and number of keys of an entry.
template <class Look>
void for_masks_and_lengths(const EntryTraits& traits, const Look& look) {
    for (const torch::ScalarType dtype : traits.dtypes)
        for (const Mask mask : traits.masks)
            for (const int64_t keys : traits.key_lengths)
                look(dtype, AttentionOptions{.scale = {}, .mask = mask}, keys);
}

/// The same, and with every head dim for inputs that are not finite.
template <class Look>
void for_masks_and_shapes(const EntryTraits& traits, const Look& look) {
    for_masks_and_lengths(traits, [&](torch::ScalarType dtype, const AttentionOptions& options, int64_t keys) {
        for (const int64_t head_dim : traits.head_dims) look(dtype, options, keys, head_dim);
    });
}

/// Which of many tries to make with an entry's shapes. Where at least two of their properties have three values or
/// more, each shape has a third of the tries, such that every dtype, mask, number of keys and head dim still has each
/// of them.
class Turns {
  public:
    explicit Turns(const EntryTraits& traits) : traits_(traits) {
        const std::size_t sizes[]{traits.dtypes.size(), traits.masks.size(), traits.key_lengths.size(),
                                  traits.head_dims.size()};
        turns_ = std::ranges::count_if(sizes, [](std::size_t size) { return size >= 3; }) >= 2 ? 3 : 1;
    }

    void begin_shape(torch::ScalarType dtype, Mask mask, int64_t keys, int64_t head_dim) {
        const auto place = [](const auto& values, auto value) {
            return std::size_t(std::ranges::find(values, value) - values.begin());
        };
        first_ = (place(traits_.dtypes, dtype) + place(traits_.masks, mask) + place(traits_.key_lengths, keys) +
                  place(traits_.head_dims, head_dim)) %
                 turns_;
        tries_ = 0;
    }
    bool next_try() { return tries_++ % turns_ == first_; }

  private:
    const EntryTraits& traits_;
    std::size_t turns_ = 1, first_ = 0, tries_ = 0;
};

/// The order of `visible`'s keys with those that all rows see shuffled, the others where they were.
torch::Tensor shuffled_where_all_see(const torch::Tensor& visible) {
    auto order = at::arange(visible.size(1), at::kLong);
    const auto seen_by_all = visible.cpu().all(0).nonzero().view({-1});
    const auto shuffle = at::randperm(seen_by_all.size(0), at::detail::createCPUGenerator(/*seed=*/1), at::kLong);
    order.index_copy_(0, seen_by_all, seen_by_all.index_select(0, shuffle));
    return order.to(visible.device());
}

}  // namespace

::testing::AssertionResult refuses_bad_input(const AttentionEntry& entry, const EntryTraits& traits) {
    return refuses(entry, traits);
}

::testing::AssertionResult refuses_bad_input(const AttentionBytes& bytes, const EntryTraits& traits) {
    return refuses(bytes, traits);
}

::testing::AssertionResult works_after_an_error(const AttentionEntry& entry, const AttentionCase& fine, Lse lse) {
    Findings findings;
    for (const auto& bad : bad_inputs(test_device(), fine.dtype)) {
        findings.in_case("after " + bad.name, [&] {
            findings.expect(throws_mentioning([&] { entry(bad.q, bad.k, bad.v, bad.options); }, {}));
            findings.expect(matches_reference(entry, fine, test_device(), lse));
        });
    }
    return findings.verdict();
}

::testing::AssertionResult repeats_bitwise(const AttentionEntry& entry, const std::vector<AttentionCase>& cases,
                                           Lse lse) {
    Findings findings;
    for (const auto& problem : cases) {
        findings.in_case(describe(problem), [&] {
            const auto [q, k, v] = make_inputs(problem, test_device());
            const auto first = entry(q, k, v, problem.options), second = entry(q, k, v, problem.options);
            expect_same_bits(findings, first, second, lse);
        });
    }
    return findings.verdict();
}

::testing::AssertionResult agrees_on_non_finite_input(const AttentionEntry& entry, const EntryTraits& traits) {
    Findings findings;
    Turns turns(traits);
    for_masks_and_shapes(
        traits, [&](torch::ScalarType dtype, const AttentionOptions& options, int64_t keys, int64_t head_dim) {
            turns.begin_shape(dtype, options.mask, keys, head_dim);
            const auto look = [&](const std::string& holds, const auto& poison_into) {
                if (!turns.next_try()) return;
                findings.in_case(text(holds, ", ", keys, " keys, ", name_of(options.mask), ", D ", head_dim), [&] {
                    auto inputs = positive_inputs(keys, head_dim, dtype);
                    poison_into(inputs);
                    const auto& [q, k, v] = inputs;
                    findings.expect(compare_attention(entry(q, k, v, options), q, k, v, options,
                                                      /*kv_lengths=*/{}, traits.lse));
                });
            };
            const auto look_at_one = [&](const std::string& argument, torch::Tensor AttentionInputs::*poisoned,
                                         int64_t row, double poison) {
                for (const int64_t column : {int64_t{7}, head_dim - 1})
                    look(text(argument, " holds ", poison, " in row ", row, ", column ", column),
                         [&](AttentionInputs& inputs) { (inputs.*poisoned)[0][1][row][column].fill_(poison); });
            };
            for (const double poison : {kInfinity, -kInfinity, kNan}) {
                look_at_one("q", &AttentionInputs::q, 3, poison);
                for (const int64_t row : {int64_t{3}, keys - 1}) {
                    look_at_one("k", &AttentionInputs::k, row, poison);
                    look_at_one("v", &AttentionInputs::v, row, poison);
                }
            }
            look("k holds -inf in all rows but the last",
                 [&](AttentionInputs& inputs) { inputs.k[0][1].slice(0, 0, keys - 1).fill_(-kInfinity); });
            look(text("k holds 100 in row 0 and inf in row ", keys - 1), [&](AttentionInputs& inputs) {
                inputs.k[0][1][0].fill_(100);
                inputs.k[0][1][keys - 1][7].fill_(kInfinity);
            });
        });
    return findings.verdict();
}

::testing::AssertionResult row_of_negative_infinities_is_nan(const AttentionEntry& entry, const EntryTraits& traits) {
    constexpr int64_t kRow = 3;
    Findings findings;
    for_masks_and_shapes(traits, [&](torch::ScalarType dtype, const AttentionOptions& options, int64_t keys,
                                     int64_t head_dim) {
        findings.in_case(text(keys, " keys, ", name_of(options.mask), ", D ", head_dim), [&] {
            const auto on_device = at::TensorOptions().dtype(dtype).device(test_device());
            const auto q = at::ones({1, 1, 8, head_dim}, on_device), k = at::ones({1, 1, keys, head_dim}, on_device);
            q[0][0][kRow].fill_(-kInfinity);
            const auto result = entry(q, k, k, options);
            findings.expect(result.out[0][0][kRow].isnan().all().item<bool>(), "the row's out is not NaN");
            findings.expect(finite_but_for_row(kRow, result.out), "another row's out is not finite");
            if (traits.lse == Lse::absent) return;
            findings.expect(result.lse[0][0][kRow].item<double>() == -kInfinity, "the row's lse is not -inf");
            findings.expect(finite_but_for_row(kRow, result.lse), "another row's lse is not finite");
        });
    });
    return findings.verdict();
}

::testing::AssertionResult ignores_batch_neighbours(const AttentionEntry& entry, const EntryTraits& traits) {
    constexpr int64_t kBatch = 2;
    Findings findings;
    for_masks_and_lengths(traits, [&](torch::ScalarType dtype, const AttentionOptions& options, int64_t keys) {
        const AttentionCase problem{.batch = kBatch,
                                    .query_heads = 3,
                                    .kv_heads = 3,
                                    .query_length = 50,
                                    .key_length = keys,
                                    .head_dim = 24,
                                    .dtype = dtype,
                                    .options = options,
                                    .seed = 1};
        for (int64_t b = 0; b < kBatch; ++b) {
            findings.in_case(text("sequence ", b, " of ", describe(problem)), [&] {
                const auto [q, k, v] = make_inputs(problem, test_device());
                const auto sequence = [b](const torch::Tensor& batch) {
                    return batch.defined() ? batch.narrow(0, b, 1) : batch;
                };
                const auto whole = entry(q, k, v, options);
                const auto alone = entry(sequence(q), sequence(k), sequence(v), options);
                expect_same_bits(findings, {sequence(whole.out), sequence(whole.lse)}, alone, traits.lse);
            });
        }
    });
    return findings.verdict();
}

::testing::AssertionResult ignores_key_order(const AttentionEntry& entry, const EntryTraits& traits) {
    Findings findings;
    for_masks_and_lengths(traits, [&](torch::ScalarType own_dtype, const AttentionOptions& options, int64_t keys) {
        for (const auto& [dtype, family] : {std::pair{own_dtype, Family::normal},
                                            {own_dtype, Family::rising_scores},
                                            {torch::kFloat16, Family::normal}}) {
            const AttentionCase problem{.batch = 2,
                                        .query_heads = 2,
                                        .kv_heads = 2,
                                        .query_length = 37,
                                        .key_length = keys,
                                        .head_dim = dtype == torch::kFloat32 ? 24 : 64,
                                        .dtype = dtype,
                                        .family = family,
                                        .options = options,
                                        .seed = 1};
            findings.in_case(describe(problem), [&] {
                const auto [q, k, v] = make_inputs(problem, test_device());
                const auto visible = visible_keys(options.mask, problem.query_length, keys, test_device());
                const auto order = shuffled_where_all_see(visible);
                const auto permuted = entry(q, k.index_select(2, order), v.index_select(2, order), options);
                findings.expect(compare_attention(permuted, q, k, v, options, /*kv_lengths=*/{}, traits.lse));
            });
        }
    });
    return findings.verdict();
}

::testing::AssertionResult moves_what_the_formula_says(const AttentionEntry& entry, const AttentionBytes& bytes,
                                                       const std::vector<AttentionCase>& cases) {
    if (not_run_without_counters()) return ::testing::AssertionSuccess();
    Findings findings;
    for (const auto& problem : cases) {
        findings.in_case(describe(problem), [&] {
            const auto [q, k, v] = make_inputs(problem, torch::kCPU);
            const simt::LaunchLog log;
            entry(q, k, v, problem.options);
            const auto counted = log.total();
            const auto expected = bytes(q, k, v, problem.options);
            findings.expect(!log.records().empty() && std::ranges::all_of(log.records(), &simt::LaunchRecord::counted),
                            "the machine counted nothing");
            findings.expect(counted.global_bytes_read() == expected.read,
                            text("read ", counted.global_bytes_read(), " bytes, the formula says ", expected.read));
            findings.expect(
                counted.global_bytes_written() == expected.written,
                text("wrote ", counted.global_bytes_written(), " bytes, the formula says ", expected.written));
        });
    }
    return findings.verdict();
}

}  // namespace ladder::reference
