#pragma once

#include <string>
#include <utility>

#include "common/attention/check.h"
#include "common/fuzz/entry.h"

namespace ladder::fuzz {

using AttentionFunction = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                              const AttentionOptions&);

/// The most keys for kernels that add up a row's terms one after another. The bound allows for a few hundred.
inline constexpr std::int64_t kLongestSum = 300;

/// `file` is the folder and stem that the header and the tests have in common.
inline Entry attention_entry(std::string name, const std::string& file, AttentionFunction function) {
    return {.name = std::move(name),
            .header = file + ".h",
            .test_file = file + "_test.cpp",
            .call = [=](const Operands& t, const Problem& p) { return function(t.q, t.k, t.v, p.attention.options); }};
}

/// An entry whose tiles depend on how many blocks there are of them.
inline Entry chooses_by_size(Entry entry) {
    entry.chooses_by_size = true;
    return entry;
}

/// A kernel of register tiles for head dimensions up to `widest`. The CPU machine imitates a device that has the shared
/// memory for them, whatever was drawn.
inline Entry tiled(Entry entry, std::int64_t widest = kMaxHeadDim) {
    entry.dtypes = {torch::kFloat32};
    entry.widest_head = widest;
    entry.call = [call = entry.call](const Operands& t, const Problem& p) {
        const simt::ScopedCpuDevice h100(simt::device_from(simt::device_profile("h100")));
        return call(t, p);
    };
    return entry;
}

}  // namespace ladder::fuzz
