#include "common/fuzz/shrink.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "common/fuzz/draw.h"

namespace ladder::fuzz {
namespace {

using Problems = std::vector<Problem>;

/// Smaller numbers to try for n, from the smallest: whoever fails first is taken.
std::vector<std::int64_t> smaller_sizes(std::int64_t n) {
    std::set<std::int64_t> sizes;
    for (const std::int64_t telling :
         {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257})
        if (telling < n) sizes.insert(telling);
    for (std::int64_t less = n / 2; less >= 1; less /= 2) sizes.insert(n - less);
    return {sizes.begin(), sizes.end()};
}

/// Brings the fields that depend on sizes back into their ranges.
void fit(Problem& p) {
    const reference::AttentionCase& c = p.attention;
    if (p.kv_lengths) {
        p.kv_lengths->resize(std::size_t(c.batch), c.key_length);
        for (std::int64_t& length : *p.kv_lengths) length = std::min(length, c.key_length);
    }
    if (p.non_finite) {
        const bool in_q = p.non_finite->argument == NonFinite::Argument::q;
        const std::array<std::int64_t, 4> sizes{c.batch, in_q ? c.query_heads : c.kv_heads,
                                                in_q ? c.query_length : c.key_length, c.head_dim};
        for (std::size_t i = 0; i < sizes.size(); ++i)
            p.non_finite->index[i] = std::min(p.non_finite->index[i], sizes[i] - 1);
    }
    if (c.head_dim % 2 != 0) p.eight_bits.first_query.reset();  // it turns pairs of columns
    if (p.property == Property::ignores_batch_neighbours && c.batch == 1) p.property = Property::none;
}

/// Collects variations of one problem.
class Variations {
  public:
    explicit Variations(const Problem& base) : base_(base) {}

    template <class Change>
    void add(const Change& change) {
        Problem p = base_;
        change(p);
        problems_.push_back(std::move(p));
    }

    Problems take() { return std::move(problems_); }

  private:
    const Problem& base_;
    Problems problems_;
};

Problems without_extras(const Entry&, const Problem& p) {
    Variations variations(p);
    if (p.property != Property::none) variations.add([](Problem& v) { v.property = Property::none; });
    if (p.non_finite) variations.add([](Problem& v) { v.non_finite.reset(); });
    if (p.kv_lengths) variations.add([](Problem& v) { v.kv_lengths.reset(); });
    if (p.splits) variations.add([](Problem& v) { v.splits.reset(); });
    if (p.block_rows) variations.add([](Problem& v) { v.block_rows.reset(); });
    if (p.workers != 1) variations.add([](Problem& v) { v.workers = 1; });
    if (p.profile != simt::kDefaultProfile)
        variations.add([](Problem& v) { v.profile = std::string(simt::kDefaultProfile); });
    return variations.take();
}

Problems plainer(const Entry& entry, const Problem& p) {
    const reference::AttentionCase& c = p.attention;
    Variations variations(p);
    if (c.options.scale) variations.add([](Problem& v) { v.attention.options.scale.reset(); });
    if (c.options.mask != entry.masks.front())
        variations.add([&](Problem& v) { v.attention.options.mask = entry.masks.front(); });
    if (c.family != reference::Family::normal)
        variations.add([](Problem& v) { v.attention.family = reference::Family::normal; });
    for (auto tensor : {&reference::Layouts::q, &reference::Layouts::k, &reference::Layouts::v})
        if (c.layouts.*tensor != reference::Layout::contiguous)
            variations.add([=](Problem& v) { v.attention.layouts.*tensor = reference::Layout::contiguous; });
    if (c.dtype != entry.dtypes.front()) variations.add([&](Problem& v) { v.attention.dtype = entry.dtypes.front(); });
    if (p.sharing.zigzag) variations.add([](Problem& v) { v.sharing.zigzag = false; });
    for (const EightBits& less : with_one_thing_less(p.eight_bits))
        variations.add([=](Problem& v) { v.eight_bits = less; });
    if (c.seed != 0) variations.add([](Problem& v) { v.attention.seed = 0; });
    return variations.take();
}

Problems smaller_batches(const Entry&, const Problem& p) {
    Variations variations(p);
    for (const std::int64_t size : smaller_sizes(p.attention.batch))
        variations.add([=](Problem& v) { v.attention.batch = size; });
    if (p.kv_lengths && p.kv_lengths->size() > 1)
        for (const std::int64_t length : *p.kv_lengths)
            variations.add([=](Problem& v) {
                v.attention.batch = 1;
                v.kv_lengths = {length};
            });
    return variations.take();
}

Problems fewer_heads(const Entry&, const Problem& p) {
    const std::int64_t kv_heads = p.attention.kv_heads, group = p.attention.query_heads / kv_heads;
    Variations variations(p);
    const auto add = [&](std::int64_t fewer_kv_heads, std::int64_t smaller_group) {
        variations.add([=](Problem& v) {
            v.attention.kv_heads = fewer_kv_heads;
            v.attention.query_heads = fewer_kv_heads * smaller_group;
        });
    };
    for (const std::int64_t size : smaller_sizes(kv_heads)) add(size, group);
    for (const std::int64_t size : smaller_sizes(group)) add(kv_heads, size);
    return variations.take();
}

/// Smaller values of one number in a problem.
Problems smaller_number(const Problem& p, std::int64_t& (*number)(Problem&)) {
    Problem copy = p;
    Variations variations(p);
    for (const std::int64_t size : smaller_sizes(number(copy))) variations.add([=](Problem& v) { number(v) = size; });
    return variations.take();
}

Problems fewer_queries(const Entry&, const Problem& p) {
    return smaller_number(p, [](Problem& v) -> std::int64_t& { return v.attention.query_length; });
}
Problems fewer_keys(const Entry&, const Problem& p) {
    return smaller_number(p, [](Problem& v) -> std::int64_t& { return v.attention.key_length; });
}

/// For entries that want equally many: both lengths at once.
Problems fewer_of_both(const Entry&, const Problem& p) {
    Variations variations(p);
    if (p.attention.query_length == p.attention.key_length)
        for (const std::int64_t size : smaller_sizes(p.attention.key_length))
            variations.add([=](Problem& v) { v.attention.query_length = v.attention.key_length = size; });
    return variations.take();
}

Problems smaller_head_dims(const Entry& entry, const Problem& p) {
    if (entry.form == Form::softmax) return {};
    return smaller_number(p, [](Problem& v) -> std::int64_t& { return v.attention.head_dim; });
}
Problems fewer_splits(const Entry&, const Problem& p) {
    return p.splits ? smaller_number(p, [](Problem& v) -> std::int64_t& { return *v.splits; }) : Problems();
}
Problems fewer_ranks(const Entry&, const Problem& p) {
    Variations variations(p);
    for (const std::int64_t ranks : smaller_sizes(p.sharing.ranks))
        variations.add([=](Problem& v) { v.sharing.ranks = int(ranks); });
    return variations.take();
}
Problems fewer_block_rows(const Entry&, const Problem& p) {
    return p.block_rows ? smaller_number(p, [](Problem& v) -> std::int64_t& { return *v.block_rows; }) : Problems();
}
Problems shorter_sequences(const Entry&, const Problem& p) {
    Variations variations(p);
    for (std::size_t b = 0; p.kv_lengths && b < p.kv_lengths->size(); ++b) {
        const std::int64_t length = (*p.kv_lengths)[b];
        if (length > 0) variations.add([=](Problem& v) { (*v.kv_lengths)[b] = 0; });
        for (const std::int64_t size : smaller_sizes(length))
            variations.add([=](Problem& v) { (*v.kv_lengths)[b] = size; });
    }
    return variations.take();
}
Problems earlier_non_finite(const Entry&, const Problem& p) {
    Variations variations(p);
    for (std::size_t i = 0; p.non_finite && i < 4; ++i)
        if (p.non_finite->index[i] > 0) variations.add([=](Problem& v) { v.non_finite->index[i] = 0; });
    return variations.take();
}

}  // namespace

Shrunk shrink(const Entry& entry, const Problem& problem, const Outcome& failure, torch::Device device,
              std::chrono::milliseconds time_limit) {
    if (failure.verdict != Verdict::failed)
        throw std::invalid_argument("shrink: " + entry.name + " did not fail on " + describe(problem));
    const auto end = std::chrono::steady_clock::now() + time_limit;
    Shrunk best{.problem = problem, .outcome = failure};
    const auto fails_alike = [&](const Problem& candidate, Outcome& outcome) {
        outcome = try_problem(entry, candidate, device);
        ++best.trials;
        return outcome.verdict == Verdict::failed && outcome.kind == failure.kind;
    };
    const auto out_of_time = [&] { return std::chrono::steady_clock::now() >= end; };
    // The first problem that fails in the same way takes the place of the best.
    const auto take_first_failing = [&](const Problems& candidates) {
        for (Problem candidate : candidates) {
            if (out_of_time()) return false;
            fit(candidate);
            if (candidate == best.problem || !is_decidable(entry, candidate)) continue;
            Outcome outcome;
            if (!fails_alike(candidate, outcome)) continue;
            best.problem = std::move(candidate);
            best.outcome = std::move(outcome);
            return true;
        }
        return false;
    };
    // Sizes early: all that follows is quicker on a small problem.
    constexpr std::array kWays{smaller_batches,   fewer_heads,    fewer_of_both,     fewer_queries,     fewer_keys,
                               smaller_head_dims, without_extras, plainer,           shorter_sequences, fewer_splits,
                               fewer_block_rows,  fewer_ranks,    earlier_non_finite};
    for (bool smaller = problem.bad_call.empty(); smaller && !out_of_time();) {
        smaller = false;
        for (const auto& way : kWays)
            while (take_first_failing(way(entry, best.problem))) smaller = true;
    }
    best.finished = !out_of_time();
    Outcome again;
    best.repeats = fails_alike(best.problem, again);
    return best;
}

}  // namespace ladder::fuzz
