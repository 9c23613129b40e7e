#pragma once

#include <algorithm>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/reference/checks.h"
#include "common/reference/test_device.h"
#include "common/simt/report/launch_log.h"
#include "phase5_decoding/split_plan.h"

// What the tests of both decoding kernels have in common.

namespace ladder {

/// What inputs are poisoned with.
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();  ///< likewise

/// [B] on the test device.
inline torch::Tensor lengths_tensor(const std::vector<int64_t>& lengths, torch::ScalarType dtype = torch::kInt32) {
    return torch::tensor(lengths, torch::kInt64).to(reference::test_device(), dtype);
}

/// Tiles that so many keys fill, the last one in part.
inline int64_t key_tiles(int64_t keys) { return (keys + kKeyTile - 1) / kKeyTile; }

/// The standard and the causal cases that this phase takes.
inline std::vector<reference::AttentionCase> all_cases() {
    std::vector<reference::AttentionCase> cases = reference::standard_cases();
    for (reference::AttentionCase& problem : reference::causal_cases())
        if (problem.options.mask == Mask::causal_bottom_right) cases.push_back(std::move(problem));
    return cases;
}

/// What decoding looks like: one or a few query tokens, grouped heads, caches of several tiles, sequences of their own
/// lengths.
struct DecodeCase {
    std::string name;                  ///< as GoogleTest shows it
    reference::AttentionCase problem;  ///< of the longest sequence
    std::vector<int64_t> lengths;      ///< keys of each sequence
};

/// Its name.
inline std::ostream& operator<<(std::ostream& stream, const DecodeCase& c) { return stream << c.name; }

/// In all three types: lengths at and around the edges of tiles, empty sequences, one to nine query tokens.
inline std::vector<DecodeCase> decode_cases() {
    using namespace reference;
    std::vector<DecodeCase> cases;
    const auto add = [&](AttentionCase problem, std::vector<int64_t> lengths) {
        problem.batch = int64_t(lengths.size());
        problem.seed = cases.size() + 1;
        std::string name = describe(problem) + "_lengths";
        for (const int64_t length : lengths) name += "_" + std::to_string(length);
        cases.push_back({std::move(name), std::move(problem), std::move(lengths)});
    };
    const auto bottom_right = AttentionOptions{.scale = {}, .mask = Mask::causal_bottom_right};
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
        add({.query_heads = 4, .kv_heads = 2, .key_length = 600, .head_dim = 32, .dtype = dtype},
            {0, 1, 31, 127, 128, 129, 600});
        add({.query_heads = 6, .kv_heads = 2, .query_length = 3, .key_length = 400, .head_dim = 64, .dtype = dtype},
            {400, 0, 257});
        add({.query_heads = 6,
             .kv_heads = 2,
             .query_length = 3,
             .key_length = 300,
             .head_dim = 40,
             .dtype = dtype,
             .options = bottom_right},
            {300, 0, 1, 2, 3, 129, 131});
        add({.query_heads = 2,
             .kv_heads = 1,
             .query_length = 9,
             .key_length = 270,
             .head_dim = 136,
             .dtype = dtype,
             .options = bottom_right},
            {270, 5, 133});
        add({.query_heads = 5,
             .kv_heads = 1,
             .key_length = 390,
             .head_dim = 24,
             .dtype = dtype,
             .family = Family::rising_scores,
             .layouts = {.q = Layout::padded_rows, .k = Layout::padded_rows, .v = Layout::shifted}},
            {390, 200});
        add({.query_heads = 8,
             .kv_heads = 2,
             .query_length = 2,
             .key_length = 390,
             .head_dim = 256,
             .dtype = dtype,
             .layouts = {.q = Layout::bshd, .k = Layout::packed_qkv, .v = Layout::bshd}},
            {100, 390});
    }
    return cases;
}

/// What was counted of one tensor.
inline const simt::TensorTraffic& traffic_of(const simt::Counters& counters, const std::string& tensor) {
    return *std::ranges::find(counters.tensors, tensor, &simt::TensorTraffic::tensor);
}

}  // namespace ladder
