#include "common/reference/comparison.h"
#include "common/reference/oracle.h"
#include "common/rung/phase.h"
#include "phase9_ring/alternatives.h"
#include "phase9_ring/blocks.h"
#include "phase9_ring/merge.h"
#include "phase9_ring/on_threads.h"
#include "phase9_ring/ring.h"
#include "phase9_ring/sent_bytes.h"

namespace ladder::phase9_ring {
namespace {

Parts parts_of(bool zigzag) { return zigzag ? Parts::zigzag : Parts::contiguous; }

template <decltype(ring_attention)* entry>
AttentionResult run(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const distributed::Group& group, const RingCall& call) {
    return entry(q, k, v, group,
                 {.attention = call.attention, .parts = parts_of(call.zigzag), .overlap = call.overlap});
}

template <SentBytes (*formula)(const WholeSizes&, int)>
std::int64_t bytes(const RingSizes& s, int ranks, bool backward) {
    const SentBytes sent = formula({.batch = s.batch,
                                    .query_heads = s.query_heads,
                                    .kv_heads = s.kv_heads,
                                    .query_length = s.query_length,
                                    .key_length = s.key_length,
                                    .head_dim = s.head_dim,
                                    .element_bytes = s.element_bytes},
                                   ranks);
    return backward ? sent.backward : sent.forward;
}

std::string nothing_against_it(const RingSizes&, int) { return {}; }

std::string too_few_heads(const RingSizes& sizes, int ranks) {
    if (sizes.kv_heads % ranks == 0 && sizes.query_heads % ranks == 0) return {};
    return "needs as many heads for each rank";
}

RingDemo demo() {
    RingDemo demo;
    demo.held = [](std::int64_t length, int rank, int ranks, bool zigzag) {
        std::vector<std::pair<std::int64_t, std::int64_t>> held;
        for (const Interval& interval : part_of(parts_of(zigzag), length, rank, ranks))
            held.emplace_back(interval.first, interval.length);
        return held;
    };
    demo.cut = [](const torch::Tensor& whole, int rank, int ranks, bool zigzag) {
        return cut_sequence(whole, 2, parts_of(zigzag), rank, ranks);
    };
    demo.rejoin = [](const std::vector<torch::Tensor>& parts, bool zigzag) {
        return rejoin_sequence(parts, 2, parts_of(zigzag));
    };
    demo.pairs = [](const RingSizes& sizes, const RingCall& call, int rank, int step, int ranks) {
        const Parts parts = parts_of(call.zigzag);
        return pairs(blocks(call.attention.mask, part_of(parts, sizes.query_length, rank, ranks),
                            part_of(parts, sizes.key_length, (rank - step + ranks) % ranks, ranks), sizes.query_length,
                            sizes.key_length));
    };
    demo.methods = {{.name = "ring",
                     .summary = "K and V go round while ranks compute, results merge",
                     .run = run<ring_attention>,
                     .bytes = bytes<ring_bytes>,
                     .objection = nothing_against_it},
                    {.name = "gather",
                     .summary = "every rank gets all of K and V first",
                     .run = run<gathered_attention>,
                     .bytes = bytes<gathered_bytes>,
                     .objection = nothing_against_it},
                    {.name = "ulysses",
                     .summary = "ranks exchange parts of the sequence for heads",
                     .run = run<ulysses_attention>,
                     .bytes = bytes<ulysses_bytes>,
                     .objection = too_few_heads}};
    return demo;
}

constexpr int kRanks = 4;  // of the ring that the rung is a part of

/// Attention over the keys of each rank, of whom one may have none: out [R, B, Hq, Sq, D] and lse [R, B, Hq, Sq].
AttentionResult attention_over_parts(const RungInput& input) {
    std::vector<torch::Tensor> out, lse;
    for (int rank = 0; rank < kRanks; ++rank) {
        const auto own = [&](const torch::Tensor& whole) {
            return cut_sequence(whole, 2, Parts::contiguous, rank, kRanks);
        };
        const torch::Tensor k = own(input.k);
        const AttentionResult part = k.size(2) > 0 ? reference::attention_oracle(input.q, k, own(input.v))
                                                   : SoFar(input.q).result();  // of no keys
        out.push_back(part.out.to(input.q.scalar_type()));
        lse.push_back(part.lse.to(torch::kFloat32));
    }
    return {.out = at::stack(out), .lse = at::stack(lse)};
}

std::vector<Rung> rungs(const RungInput& input) {
    constexpr double kFlops = 4;  // of an element: two are weighed, added, and divided by the sum of the weights
    const torch::Tensor q = input.q, k = input.k, v = input.v;
    const AttentionResult parts = attention_over_parts(input);
    const auto part = [parts](int rank) { return AttentionResult{parts.out[rank], parts.lse[rank]}; };
    const std::uint64_t merges = kRanks - 1, rows = parts.lse[0].nbytes();
    // O is read in the dtype of q the first time, and in float32 then.
    const double reads_of_O = double(merges - 1) + double(q.element_size()) / sizeof(float);
    return {
        {.kernel = "merge",
         .changes = "What a rank of a ring of four does with attention over the keys of the others, which come one "
                    "after another: each part is added to O and LSE, in float32. `./ladder ring` starts the ranks.",
         .inputs = {{"parts of O", parts.out}, {"parts of LSE", parts.lse}},
         .run =
             [=] {
                 SoFar so_far(q);
                 so_far.merge(0, {.out = parts.out[0].clone(), .lse = parts.lse[0].clone()});
                 for (int rank = 1; rank < kRanks; ++rank) so_far.merge(0, part(rank));
                 const AttentionResult whole = so_far.result();
                 return std::vector<torch::Tensor>{whole.out, whole.lse};
             },
         .check =
             [=](const std::vector<torch::Tensor>& outputs) {
                 return reference::compare_attention({outputs[0], outputs[1]}, q, k, v);
             },
         .bytes = merge_bytes(part(0), kRanks),
         .flops = kFlops * double(merges) * double(q.numel()),
         .growth = {.law = "Θ(R N d)", .source = "each of R parts once, and as often the sum", .with_length = 1},
         .tensor_bytes = {{"O", q.numel() * sizeof(float)}, {"LSE", rows}, {"O_part", q.nbytes()}, {"LSE_part", rows}},
         .repetitions = {{"O", reads_of_O, "once for each part after the first"},
                         {"O_part", double(merges), "as many tensors of that name come by"}}}};
}

fuzz::Entry fuzz_entry() {
    fuzz::Entry entry{.name = "ring_attention",
                      .header = "phase9_ring/on_threads.h",
                      .test_file = "phase9_ring/ring_test.cpp",
                      .form = fuzz::Form::shared};
    entry.rounds_weights = true;  // where attention() takes tensor cores
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    entry.most_work /= 3;  // each rank has tiles of its own, with few rows
    entry.call = [](const fuzz::Operands& t, const fuzz::Problem& p) {
        const bool no_ranks =
            (t.q.defined() && t.q.is_cuda()) || !distributed::missing_for(distributed::EngineKind::gloo).empty();
        return ring_attention_on_threads(t.q, t.k, t.v, p.attention.options, no_ranks ? 1 : p.sharing.ranks,
                                         parts_of(p.sharing.zigzag));
    };
    return entry;
}

}  // namespace

Phase describe() { return {.title = "ring attention", .rungs = rungs, .fuzz_entries = {fuzz_entry()}, .ring = demo}; }

}  // namespace ladder::phase9_ring
