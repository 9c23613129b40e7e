#include "phase9_ring/agreement.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>

#include "common/attention/check.h"

namespace ladder {
namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

/// A part may be empty, which no other problem is: in its place, one row.
torch::Tensor with_a_row(const torch::Tensor& part, bool empty) {
    if (!empty) return part;
    std::vector<std::int64_t> sizes = part.sizes().vec();
    sizes[2] = 1;
    return at::zeros(sizes, part.options());
}

bool is_empty(const torch::Tensor& part) { return part.defined() && part.dim() == 4 && part.size(2) == 0; }

void check_parts(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const RingOptions& options) {
    const bool no_keys = is_empty(k) && is_empty(v);
    check_attention(with_a_row(q, is_empty(q)), with_a_row(k, no_keys), with_a_row(v, no_keys), options.attention,
                    kMasks);
}

/// All that must be the same on every rank, a line each.
std::string words_of(const char* call, const torch::Tensor& q, const torch::Tensor& k, const RingOptions& options) {
    std::ostringstream words;
    words << "a call of " << call << "\nbatch size " << q.size(0) << '\n'
          << q.size(1) << " query heads\n"
          << k.size(1) << " key-value heads\nhead dimension " << q.size(3) << "\ndtype " << q.scalar_type() << "\nmask "
          << int(options.attention.mask) << " of the enumeration Mask\nscale "
          << (options.attention.scale ? std::to_string(*options.attention.scale) : "1/sqrt(D)") << '\n'
          << (options.parts == Parts::zigzag ? "zigzag" : "contiguous") << " parts";
    return words.str();
}

/// "4, 3 and 4"
std::string listed(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        text += (i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ") + std::to_string(numbers[i]);
    return text;
}

/// The length of the whole, of which each rank must hold what cut_sequence() gives it. Which rank is at fault where one
/// does not, nobody can tell from lengths alone: the error has them all.
std::int64_t whole_length(const char* what, const std::vector<std::int64_t>& held, const char* call, Parts parts) {
    std::int64_t whole = 0;
    for (const std::int64_t length : held) whole += length;
    const int ranks = int(held.size());
    std::vector<std::int64_t> expected;
    for (int rank = 0; rank < ranks; ++rank) expected.push_back(length_of(part_of(parts, whole, rank, ranks)));
    if (held != expected) {
        const auto first = std::ranges::mismatch(held, expected).in1 - held.begin();
        throw distributed::RankError(int(first), std::string(call) + ": ranks 0 to " + std::to_string(ranks - 1) +
                                                     " hold " + listed(held) + ' ' + what + "; of " +
                                                     std::to_string(whole) + ", cut over " + std::to_string(ranks) +
                                                     " ranks, they hold " + listed(expected) + ": see cut_sequence()");
    }
    return whole;
}

}  // namespace

Agreement agree(const char* call, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                const distributed::Group& group, const RingOptions& options) {
    try {
        check_parts(q, k, v, options);
    } catch (const std::exception& error) {
        group.give_up(std::string(call) + ": " + error.what());
        throw;
    }
    std::vector<std::string> words = group.hear_all(words_of(call, q, k, options) + '\t' + std::to_string(q.size(2)) +
                                                    ' ' + std::to_string(k.size(2)));
    std::vector<std::int64_t> queries(words.size()), keys(words.size());
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
        const std::size_t tab = words[rank].find('\t');
        std::istringstream(words[rank].substr(tab)) >> queries[rank] >> keys[rank];
        words[rank].resize(tab);
    }
    distributed::require_same(words, call);
    return {.query_length = whole_length("queries", queries, call, options.parts),
            .key_length = whole_length("keys", keys, call, options.parts)};
}

}  // namespace ladder
