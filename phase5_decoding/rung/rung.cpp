
#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "common/torch/torch.h"
#include "phase5_decoding/decode.h"

namespace ladder::phase5_decoding {
namespace {

using torch::Tensor;

std::vector<Rung> rungs(const RungInput& input) {
    const RungInput few = with_newest(input);
    const AttentionOptions attention{.scale = {},
                                     .mask = input.causal.value_or(false) ? Mask::causal_bottom_right : Mask::none};
    const DecodeOptions options{.attention = attention, .splits = input.splits};
    return {attention_rung(
        "flash_decode",
        "One new token against a cache of keys: too few queries to fill a GPU, so the keys are split over blocks, and "
        "a second kernel merges the partial results with phase 0's (m, l).",
        few, attention, [=](const auto& q, const auto& k, const auto& v) { return flash_decode(q, k, v, options); },
        flash_decode_bytes(few.q, few.k, few.v, options), growth_with_few_queries())};
}

using DecodeFunction = AttentionResult (*)(const Tensor&, const Tensor&, const Tensor&, const DecodeOptions&);

fuzz::Entry fuzz_entry(const char* name, DecodeFunction function) {
    fuzz::Entry entry = fuzz::attention_entry(name, "phase5_decoding/decode", nullptr);
    entry.form = fuzz::Form::decode;
    entry.masks = {Mask::none, Mask::causal_bottom_right};
    entry.longest_query = 40;
    entry.longest_key = 1500;
    entry.call = [=](const fuzz::Operands& t, const fuzz::Problem& p) {
        return function(t.q, t.k, t.v,
                        {.attention = p.attention.options, .kv_lengths = t.kv_lengths, .splits = p.splits});
    };
    return entry;
}

DecodeOptions options_of(const bench::Problem& p) { return {.attention = p.options(), .splits = p.splits}; }

template <auto Run>
bench::Tensors called(const bench::Tensors& t, const bench::Problem& p) {
    const AttentionResult result = Run(t[0], t[1], t[2], options_of(p));
    return {result.out, result.lse};
}

template <auto Run, auto Bytes>
bench::Entry bench_entry(const char* name, const char* colour) {
    return {.name = name,
            .colour = colour,
            .call = called<Run>,
            .bytes = [](const bench::Tensors& t, const bench::Problem& p) {
                return Bytes(t[0], t[1], t[2], options_of(p));
            }};
}

int splits_of(const bench::Tensors& t, const bench::Problem& p) {
    return flash_decode_splits(t[0], t[1], t[2], options_of(p));
}

bench::FirstStep split_kernel_alone() {
    return {.name = "flash_decode_parts",
            .heading = "merge",
            .legend = "what the whole takes more than its first kernel alone; sN: N splits asked for",
            .there_is_more = [](const bench::Tensors& t, const bench::Problem& p) { return splits_of(t, p) > 1; },
            .call = called<flash_decode_parts>,
            .finish =
                [](const bench::Tensors& parts, const bench::Tensors& inputs) {
                    const Tensor lse = parts[1].to(torch::kFloat64);
                    const Tensor out = (at::softmax(lse, 0).unsqueeze(-1) * parts[0]).sum(0);
                    return bench::Tensors{out.to(inputs[0].scalar_type()), at::logsumexp(lse, 0).to(torch::kFloat32)};
                },
            .bytes_left =
                [](const bench::Tensors& t, const bench::Problem& p) {
                    return double(splits_of(t, p)) * double(t[0].numel()) * sizeof(float);
                }};
}

void bench_cases(bench::CaseList& list) {
    using bench::DecodeShape, bench::Lengths, bench::Problem, bench::Sweep;
    using Shapes = std::vector<DecodeShape>;
    const std::vector<std::string> entries = {"flash_decode"};
    const std::vector<std::string> steps = {"flash_decode_plain", "flash_decode"};
    const auto shapes = list.either<Shapes>({{.batch = 8, .query_heads = 32, .kv_heads = 8, .keys = 8192},
                                             {.batch = 1, .query_heads = 32, .kv_heads = 32, .keys = 8192},
                                             {.batch = 1, .query_heads = 32, .kv_heads = 32, .keys = 65536},
                                             {.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 65536},
                                             {.batch = 64, .query_heads = 32, .kv_heads = 8, .keys = 4096},
                                             {.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 524288}},
                                            {{.batch = 2, .query_heads = 4, .kv_heads = 2, .keys = 512},
                                             {.batch = 1, .query_heads = 4, .kv_heads = 4, .keys = 512}});
    const auto base = list.either<DecodeShape>({.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 65536},
                                               {.batch = 1, .query_heads = 4, .kv_heads = 2, .keys = 512});
    list.add(steps, list.decode(shapes.front()), {Sweep::ladder});
    for (const DecodeShape& shape : shapes) list.add(steps, list.decode(shape), {Sweep::headline});
    const auto lengths = list.either<Lengths>({1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288},
                                              {128, 256, 512, 1024});
    for (const auto keys : lengths) {
        DecodeShape shape = base;
        shape.keys = keys;
        list.add(entries, list.decode(shape), {Sweep::kv_length}, keys <= lengths[1]);
    }
    for (const auto splits : list.either<Lengths>({1, 2, 4, 8, 16, 32, 64, 128}, {1, 2, 4})) {
        Problem problem = list.decode(base);
        problem.splits = splits;
        list.add(entries, problem, {Sweep::splits});
    }
    for (const auto batch : list.either<Lengths>({1, 2, 4, 8, 16, 32, 64}, {1, 2})) {
        DecodeShape shape = base;
        shape.batch = batch;
        shape.keys = list.either<std::int64_t>(8192, 256);
        list.add(entries, list.decode(shape), {Sweep::batch_and_heads});
    }
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
        list.add(entries, list.decode(base, dtype), {Sweep::dtype});
}

}  // namespace

Phase describe() {
    bench::Entry fastest = bench_entry<flash_decode, flash_decode_bytes>("flash_decode", "#4f9d54");
    fastest.first_step = split_kernel_alone();
    fuzz::Entry on_tensor_cores = fuzz_entry("flash_decode", flash_decode);
    on_tensor_cores.rounds_weights = true;
    return {
        .title = "decoding with split keys",
        .causal_mask = CausalMask::if_asked,
        .splits_keys = true,
        .rungs = rungs,
        .fuzz_entries = {on_tensor_cores, fuzz_entry("flash_decode_plain", flash_decode_plain)},
        .bench_entries = {bench_entry<flash_decode_plain, flash_decode_plain_bytes>("flash_decode_plain", "#8cc290"),
                          fastest},
        .bench_cases = bench_cases};
}

}  // namespace ladder::phase5_decoding
