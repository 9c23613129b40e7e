#include <cmath>

#include "common/rung/attention_rung.h"
#include "common/rung/fuzz_entry.h"
#include "common/rung/phase.h"
#include "common/simt/device/device.h"
#include "common/simt/device/device_profile.h"
#include "phase7_hopper/fp8/compare_codes.h"
#include "phase7_hopper/fp8/hopper_fp8.h"
#include "phase7_hopper/hopper.h"

namespace ladder::phase7_hopper {
namespace {

const std::vector<torch::ScalarType> kTypes = {torch::kFloat16, torch::kBFloat16};

/// Calls `use`; on the CPU machine as an H100, where it imitates a device without wgmma.
template <class Use>
auto on_hopper(const Use& use) {
    if (simt::cpu_device().has_feature(simt::Feature::wgmma)) return use();
    const simt::ScopedCpuDevice h100(simt::device_from(simt::device_profile("h100")));
    return use();
}

template <auto Run>
AttentionResult on_hopper(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const AttentionOptions& options) {
    return on_hopper([&] { return Run(q, k, v, options); });
}

template <auto Run, auto Bytes>
Rung rung_of(const char* name, const char* changes, const RungInput& input) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    Rung rung = attention_rung(
        name, changes, input, options,
        [=](const auto& q, const auto& k, const auto& v) { return on_hopper<Run>(q, k, v, options); },
        Bytes(input.q, input.k, input.v, options), growth_with_query_tiles());
    rung.tensor_cores = true;
    if (rung.causal)
        for (const char* tensor : {"K", "V"})
            rung.repetitions.push_back({tensor, {}, "each block skips the keys that none of its queries sees"});
    return rung;
}

std::vector<Rung> rungs(const RungInput& input) {
    return {
        rung_of<hopper_plain_forward, hopper_plain_bytes>(
            "hopper_plain_forward",
            "Hopper alone (the CPU machine imitates one): four warps multiply 64 rows at once, straight from shared "
            "memory, into which one thread has whole tiles copied. One thing after the other.",
            input),
        rung_of<hopper_turns_forward, hopper_turns_bytes>(
            "hopper_turns_forward",
            "A warp fetches, two warpgroups multiply, and take turns with their softmax. Who waits, waits for a tile "
            "and not for the block; registers go where they are needed.",
            input),
        rung_of<hopper_overlapped_forward, hopper_overlapped_bytes>(
            "hopper_overlapped_forward",
            "A warpgroup has the scores of a tile and the output of the one before multiplied together, and computes "
            "exponentials under that.",
            input),
        rung_of<hopper_forward, hopper_forward_bytes>(
            "hopper_forward",
            "Up to D = 128: three warpgroups share keys and values, and each has a part of its weights multiplied "
            "while it computes the next.",
            input)};
}

/// Attention in 8 bits has no place in the tour: its errors would be held against those of 16 bits.
std::vector<Rung> rungs_in_8_bits(const RungInput& input) {
    const AttentionOptions options{.scale = {},
                                   .mask = input.causal.value_or(true) ? Mask::causal_bottom_right : Mask::none};
    const auto forward = [=](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
        return on_hopper([&] { return hopper_fp8_forward(q, k, v, options); });
    };
    Rung rung =
        attention_rung("hopper_fp8_forward", "In 8 bits, with a scale for each block of rows.", input, options, forward,
                       hopper_fp8_forward_bytes(input.q, input.k, input.v, options), growth_with_query_tiles());
    rung.check = [=, q = input.q, k = input.k, v = input.v](const std::vector<torch::Tensor>& outputs) {
        return on_hopper([&] { return fp8::compare_in_8_bits({outputs[0], outputs[1]}, q, k, v, options, {}); });
    };
    rung.tensor_cores = true;
    // Q, K and V are read in 16 bits by one kernel, and in 8 by another.
    for (const char* tensor : {"Q", "K", "V"}) rung.tensor_bytes.erase(tensor);
    return {rung};
}

fuzz::Entry fuzz_entry(const char* name, fuzz::AttentionFunction function) {
    fuzz::Entry entry = fuzz::attention_entry(name, "phase7_hopper/hopper", function);
    entry.dtypes = kTypes;
    entry.rounds_weights = true;
    entry.needs = {simt::Feature::tma, simt::Feature::wgmma};
    entry.masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
    entry.call = [call = entry.call](const fuzz::Operands& t, const fuzz::Problem& p) {
        return on_hopper([&] { return call(t, p); });
    };
    return entry;
}

/// FlashAttention-3 in 8 bits, with the promise that its header makes.
fuzz::Entry fuzz_entry_in_8_bits() {
    const auto options_of = [](const fuzz::Operands& t, const fuzz::EightBits& e) {
        Fp8Options how{.rotated = e.rotated, .values = e.values_in_e5m2 ? ValueCodes::e5m2 : ValueCodes::e4m3};
        if (e.first_query) how.rotary = Rotary{t.cosines, t.sines, *e.first_query};
        return how;
    };
    return {.name = "hopper_fp8_forward",
            .header = "phase7_hopper/fp8/hopper_fp8.h",
            .test_file = "phase7_hopper/fp8/hopper_fp8_test.cpp",
            .form = fuzz::Form::eight_bits,
            .dtypes = kTypes,
            .needs = {simt::Feature::tma, simt::Feature::wgmma},
            .masks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left},
            .call =
                [=](const fuzz::Operands& t, const fuzz::Problem& p) {
                    return on_hopper([&] {
                        return hopper_fp8_forward(t.q, t.k, t.v, p.attention.options, options_of(t, p.eight_bits));
                    });
                },
            .compare =
                [=](const AttentionResult& result, const fuzz::Operands& t, const fuzz::Problem& p) {
                    return on_hopper([&] {
                        return fp8::compare_in_8_bits(result, t.q, t.k, t.v, p.attention.options,
                                                      options_of(t, p.eight_bits));
                    });
                },
            .comparison = "fp8::compare_in_8_bits",
            .comparison_header = "phase7_hopper/fp8/compare_codes.h"};
}

template <auto Run, auto Bytes>
bench::Entry bench_entry(const char* name, const char* colour) {
    bench::Entry entry = bench::attention_entry<Run, Bytes>(name, colour);
    entry.call = [call = entry.call](const bench::Tensors& t, const bench::Problem& p) {
        return on_hopper([&] { return call(t, p); });
    };
    return entry;
}

/// The kernel in 8 bits, on operands that were quantized before. Its results are held against 16 bits: of random
/// numbers without outliers the codes alone cost some 4 % of a result, the root of the mean square, and the kernel 3 %
/// more.
bench::Entry bench_entry_in_8_bits() {
    constexpr double kAllowed = 0.1;
    const auto prepare = [](const bench::Tensors& t, const bench::Problem& p) {
        return on_hopper([&] {
            const Fp8Operands o = quantize_to_8_bits(t[0], t[1], t[2], p.options());
            return bench::Tensors{o.q, o.k, o.v, o.q_exponents, o.k_exponents, o.v_exponents};
        });
    };
    const auto call = [](const bench::Tensors& t, const bench::Problem& p) {
        const Fp8Operands operands{.q = t[0],
                                   .k = t[1],
                                   .v = t[2],
                                   .q_exponents = t[3],
                                   .k_exponents = t[4],
                                   .v_exponents = t[5],
                                   .head_dim = p.head_dim,
                                   .dtype = p.dtype,
                                   .scale = 1.0 / std::sqrt(double(p.head_dim))};
        const AttentionResult result = on_hopper([&] { return hopper_fp8_attention(operands, p.mask); });
        return bench::Tensors{result.out, result.lse};
    };
    const auto judge = [](const bench::Tensors& outputs, const bench::Tensors& t, const bench::Problem& p) {
        const torch::Tensor expected = on_hopper<hopper_forward>(t[0], t[1], t[2], p.options()).out.to(torch::kFloat32);
        const torch::Tensor error = outputs[0].to(torch::kFloat32) - expected;
        const auto rms = [](const torch::Tensor& x) { return x.square().mean().sqrt().item<double>(); };
        const double got = rms(error), allowed = kAllowed * rms(expected);
        return bench::Verdict{.right = got <= allowed,
                              .max_abs_error = got,
                              .bound = allowed,
                              .text = got <= allowed ? "" : "its root mean square error against 16 bits is too large"};
    };
    return {.name = "hopper_fp8_attention",
            .colour = "#3d1f66",
            .call = call,
            .bytes = [](const bench::Tensors& t,
                        const bench::Problem& p) { return hopper_fp8_bytes(t[0], t[1], t[2], p.options()); },
            .prepare = prepare,
            .judge = judge};
}

void bench_cases(bench::CaseList& list) {
    using bench::Lengths, bench::Problem, bench::Sweep;
    const bench::Sizes& sizes = list.sizes();
    const std::vector<std::string> entries = {"hopper_forward"};
    const std::vector<std::string> steps = {"hopper_plain_forward", "hopper_turns_forward", "hopper_overlapped_forward",
                                            "hopper_forward"};
    // As many numbers in a token's heads together whatever the head dimension is, as in models of one size.
    const std::int64_t width = sizes.heads * list.either<std::int64_t>(128, 32);
    const auto problem_of = [&](std::int64_t length, std::int64_t head_dim, Mask mask) {
        Problem problem = list.attention(length, head_dim);
        problem.query_heads = problem.kv_heads = std::max<std::int64_t>(1, width / head_dim);
        problem.mask = mask;
        problem.dtype = torch::kBFloat16;
        return problem;
    };
    const std::int64_t long_enough = list.either<std::int64_t>(8192, 128);
    const std::int64_t usual_dim = list.either<std::int64_t>(128, 32);
    list.add(steps, problem_of(long_enough, usual_dim, Mask::none), {Sweep::ladder});
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right}) {
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, {32}))
            list.add(steps, problem_of(long_enough, head_dim, mask), {Sweep::headline});
        for (const auto head_dim : list.either<Lengths>({64, 96, 128, 192, 256}, {32, 64}))
            list.add(entries, problem_of(long_enough, head_dim, mask), {Sweep::head_dim});
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, sizes.length_sweep_dims))
            for (const auto length : sizes.lengths)
                list.add(entries, problem_of(length, head_dim, mask), {Sweep::length},
                         head_dim == usual_dim && length <= sizes.lengths[1]);
        // Grouped heads, as NVIDIA's table of this chip has them.
        for (const auto length : list.either<Lengths>({4096, 8192, 16384}, {128})) {
            Problem grouped = problem_of(length, usual_dim, mask);
            grouped.query_heads = list.either<std::int64_t>(64, 4);
            grouped.kv_heads = list.either<std::int64_t>(8, 2);
            list.add(entries, grouped, {Sweep::batch_and_heads});
        }
    }
    for (const Mask mask : {Mask::none, Mask::causal_bottom_right})
        for (const auto head_dim : list.either<Lengths>({64, 128, 256}, {64}))
            for (const auto length : list.either<Lengths>({8192, 16384}, {128}))
                list.add({"hopper_forward", "hopper_fp8_attention"}, problem_of(length, head_dim, mask), {Sweep::dtype},
                         length == 128);
    Problem in_float16 = problem_of(long_enough, usual_dim, Mask::none);
    in_float16.dtype = torch::kFloat16;
    list.add(entries, in_float16, {Sweep::dtype});
}

}  // namespace

Phase describe() {
    return {.title = "Hopper",
            .causal_mask = CausalMask::unless_refused,
            .dtypes = kTypes,
            .rungs = rungs,
            .profiled_besides = rungs_in_8_bits,
            .fuzz_entries = {fuzz_entry("hopper_forward", hopper_forward),
                             fuzz_entry("hopper_overlapped_forward", hopper_overlapped_forward),
                             fuzz_entry("hopper_turns_forward", hopper_turns_forward),
                             fuzz_entry("hopper_plain_forward", hopper_plain_forward), fuzz_entry_in_8_bits()},
            .bench_entries = {bench_entry<hopper_plain_forward, hopper_plain_bytes>("hopper_plain_forward", "#b9a3d6"),
                              bench_entry<hopper_turns_forward, hopper_turns_bytes>("hopper_turns_forward", "#a184c9"),
                              bench_entry<hopper_overlapped_forward, hopper_overlapped_bytes>(
                                  "hopper_overlapped_forward", "#8764b8"),
                              bench_entry<hopper_forward, hopper_forward_bytes>("hopper_forward", "#6b3fa0"),
                              bench_entry_in_8_bits()},
            .bench_cases = bench_cases};
}

}  // namespace ladder::phase7_hopper
