#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/rung/bench.h"

namespace ladder::bench {

/// How much the machine can bear: a GPU is asked for billions of operations, the CPU machine for a few thousand.
enum class Scale { gpu, cpu };

using Lengths = std::vector<std::int64_t>;

/// What several phases measure alike, so that their figures can be held against each other. Lists go from small to
/// large.
struct Sizes {
    std::int64_t tokens, heads;  ///< batch * N of the attention problems
    std::int64_t base_length, base_dim;
    Lengths lengths, head_dims;
    Lengths length_sweep_dims;  ///< head dims for which the length is swept
    Lengths other_head_dims;    ///< those that are measured at a few lengths
    std::int64_t decode_dim;
};

/// The sizes for a GPU, or for the CPU machine.
inline Sizes sizes_for(Scale scale) {
    if (scale == Scale::gpu)
        return {.tokens = 16384,
                .heads = 16,
                .base_length = 4096,
                .base_dim = 64,
                .lengths = {512, 1024, 2048, 4096, 8192, 16384},
                .head_dims = {32, 64, 128, 256},
                .length_sweep_dims = {64, 128},
                .other_head_dims = {32, 96, 256},
                .decode_dim = 128};
    return {.tokens = 128,
            .heads = 2,
            .base_length = 128,
            .base_dim = 32,
            .lengths = {32, 64, 128, 256},
            .head_dims = {32, 64, 128},
            .length_sweep_dims = {32},
            .other_head_dims = {},
            .decode_dim = 64};
}

/// A cache of keys and values, and the query heads that ask it.
struct DecodeShape {
    std::int64_t batch, query_heads, kv_heads, keys;
};

/// The cases of one phase, as it adds them.
class CaseList {
  public:
    CaseList(Scale scale, int phase) : scale_(scale), phase_(phase), sizes_(sizes_for(scale)) {}

    const Sizes& sizes() const { return sizes_; }

    template <class T>
    T either(T on_a_gpu, T on_the_cpu_machine) const {
        return scale_ == Scale::gpu ? on_a_gpu : on_the_cpu_machine;
    }

    /// As many queries as keys, and batch * length the same for all lengths.
    Problem attention(std::int64_t length, std::int64_t head_dim) const {
        return {.batch = std::max<std::int64_t>(1, sizes_.tokens / length),
                .query_heads = sizes_.heads,
                .kv_heads = sizes_.heads,
                .queries = length,
                .keys = length,
                .head_dim = head_dim};
    }

    /// One query for each sequence.
    Problem decode(const DecodeShape& shape, torch::ScalarType dtype = torch::kBFloat16) const {
        return {.work = Work::decode,
                .dtype = dtype,
                .batch = shape.batch,
                .query_heads = shape.query_heads,
                .kv_heads = shape.kv_heads,
                .queries = 1,
                .keys = shape.keys,
                .head_dim = sizes_.decode_dim};
    }

    /// The same problem is measured once, whatever it is asked for.
    void add(const std::vector<std::string>& entries, const Problem& problem, const std::set<Sweep>& sweeps,
             bool quick = false) {
        const auto known = std::ranges::find(cases_, problem, &Case::problem);
        if (known == cases_.end()) {
            cases_.push_back(
                {.phase = phase_, .entries = entries, .problem = problem, .sweeps = sweeps, .quick = quick});
            return;
        }
        known->sweeps.insert(sweeps.begin(), sweeps.end());
        known->quick |= quick;
        for (const std::string& entry : entries)
            if (std::ranges::count(known->entries, entry) == 0) known->entries.push_back(entry);
    }

    /// Adds each length; the two shortest are part of --quick, which so has two points of the curve.
    void sweep_lengths(const std::vector<std::string>& entries, std::int64_t head_dim, Mask mask = Mask::none) {
        for (const std::int64_t length : sizes_.lengths) {
            Problem problem = attention(length, head_dim);
            problem.mask = mask;
            add(entries, problem, {Sweep::length}, head_dim == sizes_.base_dim && length <= sizes_.lengths[1]);
        }
    }

    /// Adds the head dimensions that sweep_lengths() is not asked for, at three lengths each, with as many heads as
    /// make 2048 columns, or nearly.
    void add_other_head_dims(const std::vector<std::string>& entries, Mask mask = Mask::none) {
        for (const std::int64_t head_dim : sizes_.other_head_dims)
            for (const std::int64_t length : {512, 2048, 8192}) {
                Problem problem = attention(length, head_dim);
                problem.query_heads = problem.kv_heads = 2048 / head_dim;
                problem.mask = mask;
                add(entries, problem, {Sweep::head_dim});
            }
    }

    const std::vector<Case>& cases() const { return cases_; }

  private:
    Scale scale_;
    int phase_;
    Sizes sizes_;
    std::vector<Case> cases_;
};

}  // namespace ladder::bench
