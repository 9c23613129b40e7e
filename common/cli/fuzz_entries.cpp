#include "common/cli/fuzz_entries.h"

#include "common/attention/wide_tiles.h"

#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"
#include "phase1_naive/naive.h"
#include "phase2_fa1/fa1.h"
#include "phase3_fa2/fa2.h"
#include "phase4_causal/causal.h"
#include "phase5_decoding/decode.h"

namespace ladder::cli {
namespace {

using fuzz::Entry, fuzz::Form, fuzz::Operands, fuzz::Problem;

Entry softmax_entry(const char* name, torch::Tensor (*function)(const torch::Tensor&)) {
    return {.phase = 0,
            .name = name,
            .header = "phase0_softmax/softmax.h",
            .test_file = "phase0_softmax/softmax_test.cpp",
            .form = Form::softmax,
            .longest_query = 40,
            .longest_key = 6000,
            .call = [=](const Operands& t, const Problem&) {
                return AttentionResult{function(t.q), {}};
            }};
}

using AttentionFunction = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                              const AttentionOptions&);

/// The most keys for kernels that add up a row's terms one after another. The bound allows for a few hundred.
constexpr int64_t kLongestSum = 300;

/// `file` is the folder and stem that the header and the tests have in common.
Entry attention_entry(int phase, const char* name, const std::string& file, AttentionFunction function) {
    return {.phase = phase,
            .name = name,
            .header = file + ".h",
            .test_file = file + "_test.cpp",
            .call = [=](const Operands& t, const Problem& p) { return function(t.q, t.k, t.v, p.attention.options); }};
}

using BlockedFunction = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                            const AttentionOptions&, int64_t);

Entry blocked_entry(const char* name, BlockedFunction function) {
    Entry entry = attention_entry(1, name, "phase1_naive/naive", nullptr);
    entry.form = Form::blocked;
    entry.rounds_scores = true;
    entry.call = [=](const Operands& t, const Problem& p) {
        return function(t.q, t.k, t.v, p.attention.options, p.block_rows.value_or(kDefaultBlockRows));
    };
    return entry;
}

Entry standard_attention_entry() {
    Entry entry = attention_entry(1, "standard_attention", "phase1_naive/naive", standard_attention);
    entry.rounds_scores = true;
    entry.longest_key = kLongestSum;
    return entry;
}

/// A warp spends five shuffles on each score, which the CPU machine takes its time for.
Entry online_attention_entry() {
    Entry entry = attention_entry(0, "online_attention", "phase0_softmax/online_attention", online_attention);
    entry.adds_keys_in_turn = true;
    entry.longest_key = kLongestSum;
    entry.most_scores = 12'000;
    return entry;
}

Entry causal_entry(const char* name, AttentionFunction function) {
    Entry entry = attention_entry(4, name, "phase4_causal/causal", function);
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    return entry;
}

/// An entry that takes a kernel of wide tiles where there are enough blocks of them.
Entry chooses_by_size(Entry entry) {
    entry.chooses_by_size = true;
    return entry;
}

/// A kernel of wide tiles. The CPU machine imitates a device that has the shared memory for them, whatever was drawn.
Entry tiled(Entry entry) {
    entry.float32_only = true;
    entry.widest_head = kWidestWideHeadDim;
    entry.call = [call = entry.call](const Operands& t, const Problem& p) {
        const simt::ScopedCpuDevice h100(simt::device_from(simt::device_profile("h100")));
        return call(t, p);
    };
    return entry;
}

using DecodeFunction = AttentionResult (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                           const DecodeOptions&);

Entry decode_entry(const char* name, DecodeFunction function) {
    Entry entry = attention_entry(5, name, "phase5_decoding/decode", nullptr);
    entry.form = Form::decode;
    entry.masks = {Mask::none, Mask::causal_bottom_right};
    entry.longest_query = 40;
    entry.longest_key = 1500;
    entry.call = [=](const Operands& t, const Problem& p) {
        return function(t.q, t.k, t.v,
                        {.attention = p.attention.options, .kv_lengths = t.kv_lengths, .splits = p.splits});
    };
    return entry;
}

}  // namespace

std::vector<Entry> fuzz_entries() {
    return {softmax_entry("safe_softmax", safe_softmax),
            softmax_entry("online_softmax", online_softmax),
            softmax_entry("block_plain_softmax", block_plain_softmax),
            softmax_entry("block_softmax", block_softmax),
            online_attention_entry(),
            standard_attention_entry(),
            blocked_entry("q_blocked_attention", q_blocked_attention),
            blocked_entry("qv_blocked_attention", qv_blocked_attention),
            attention_entry(2, "fa1_forward", "phase2_fa1/fa1", fa1_forward),
            tiled(attention_entry(2, "fa1_tiled_forward", "phase2_fa1/fa1", fa1_tiled_forward)),
            chooses_by_size(attention_entry(3, "fa2_forward", "phase3_fa2/fa2", fa2_forward)),
            tiled(attention_entry(3, "fa2_tiled_forward", "phase3_fa2/fa2", fa2_tiled_forward)),
            chooses_by_size(causal_entry("causal_forward", causal_forward)),
            tiled(causal_entry("causal_tiled_forward", causal_tiled_forward)),
            decode_entry("flash_decode", flash_decode),
            decode_entry("flash_decode_plain", flash_decode_plain)};
}

}  // namespace ladder::cli
