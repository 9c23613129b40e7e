#include <fmt/format.h>

#include "common/attention/machine.h"
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "phase2_fa1/fa1.h"

namespace ladder::phase2_fa1 {
namespace {

std::vector<Rung> rungs(const RungInput& input) {
    // As published on every device: the law and the repetitions below are those of tiles that follow shared memory.
    Rung rung = attention_rung(
        "fa1_forward",
        "FlashAttention-1: phase 0's online softmax lets keys and values come in tiles, so shared memory no longer "
        "grows with the length. Key tiles are the outer loop; O, l and m travel to global memory and back at each "
        "step.",
        input, {}, [](const auto& q, const auto& k, const auto& v) { return fa1_plain_forward(q, k, v); },
        fa1_plain_bytes(input.q, input.k, input.v),
        {.law = "Θ(N² d² / M)", .source = "Dao et al. 2022, Theorem 2", .with_length = 2, .with_shared_memory = -1});
    const Fa1Tiles tiles =
        fa1_tiles(device_limits(input.q.device()), tensor_argument("Q", input.q).type, input.q.size(3));
    rung.tiles = {{"B_r", tiles.B_r}, {"B_c", tiles.B_c}};
    const std::int64_t key_tiles = (input.k.size(2) + tiles.B_c - 1) / tiles.B_c;
    const auto tiles_text = fmt::format("{} tiles of {} keys", key_tiles, tiles.B_c);
    rung.repetitions = {{"Q", double(key_tiles), "once for each of " + tiles_text}};
    for (const char* tensor : {"O", "O (float32)", "l", "m"})
        rung.repetitions.push_back({tensor, double(key_tiles - 1), "between any two of " + tiles_text});
    return {std::move(rung)};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> steps = {"fa1_plain_forward", "fa1_forward"};
    list.add(steps, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto length : list.either<Lengths>({512, 1024, 2048, 4096}, {32, 64, 128}))
        list.add(steps, list.attention(length, sizes.base_dim), {Sweep::length});
    for (const auto head_dim : list.either<Lengths>({32, 64, 128}, {32, 64}))
        list.add(steps, list.attention(sizes.base_length, head_dim), {Sweep::head_dim});
}

}  // namespace

Phase describe() {
    const auto fuzz_entry = [](const char* name, fuzz::AttentionFunction function) {
        return fuzz::attention_entry(name, "phase2_fa1/fa1", function);
    };
    return {
        .title = "FlashAttention-1: keys outside",
        .rungs = rungs,
        .fuzz_entries = {fuzz_entry("fa1_forward", fa1_forward),
                         fuzz::tiled(fuzz_entry("fa1_tiled_forward", fa1_tiled_forward), kWidestFa1Tile)},
        .bench_entries = {bench::attention_entry<fa1_plain_forward, fa1_plain_bytes>("fa1_plain_forward", "#e5ab74"),
                          bench::attention_entry<fa1_forward, fa1_forward_bytes>("fa1_forward", "#d9822b")},
        .bench_cases = bench_cases};
}

}  // namespace ladder::phase2_fa1
