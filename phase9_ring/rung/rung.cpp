#include "common/rung/phase.h"
#include "phase9_ring/alternatives.h"
#include "phase9_ring/blocks.h"
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

}  // namespace

Phase describe() { return {.title = "ring attention", .ring = demo}; }

}  // namespace ladder::phase9_ring
