#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "common/attention/machine.h"
#include "common/cli/bench/contestant.h"
#include "phase0_softmax/online_attention.h"
#include "phase0_softmax/softmax.h"
#include "phase1_naive/naive.h"
#include "phase2_fa1/fa1.h"
#include "phase3_fa2/fa2.h"
#include "phase4_causal/causal.h"
#include "phase5_decoding/decode.h"

namespace ladder::cli::bench {
namespace {

using torch::Tensor;

struct SoftmaxEntry {
    const char* name;
    Tensor (*run)(const Tensor&);
    GlobalBytes (*bytes)(const Tensor&);
};
constexpr SoftmaxEntry kSoftmaxEntries[] = {{"safe_softmax", safe_softmax, safe_softmax_bytes},
                                            {"online_softmax", online_softmax, online_softmax_bytes},
                                            {"block_plain_softmax", block_plain_softmax, block_plain_softmax_bytes},
                                            {"block_softmax", block_softmax, block_softmax_bytes}};

struct AttentionEntry {
    const char* name;
    AttentionResult (*run)(const Tensors&, const Problem&);
    GlobalBytes (*bytes)(const Tensors&, const Problem&);
};

AttentionOptions options_of(const Problem& p) { return {.scale = {}, .mask = p.mask}; }
DecodeOptions decode_options_of(const Problem& p) { return {.attention = options_of(p), .splits = p.splits}; }

template <auto Run, auto Bytes>
constexpr AttentionEntry decoding(const char* name) {
    return {name, [](const Tensors& t, const Problem& p) { return Run(t[0], t[1], t[2], decode_options_of(p)); },
            [](const Tensors& t, const Problem& p) { return Bytes(t[0], t[1], t[2], decode_options_of(p)); }};
}

template <auto Run, auto Bytes>
constexpr AttentionEntry plain(const char* name) {
    return {name, [](const Tensors& t, const Problem& p) { return Run(t[0], t[1], t[2], options_of(p)); },
            [](const Tensors& t, const Problem& p) { return Bytes(t[0], t[1], t[2], options_of(p)); }};
}

/// As many query rows per block as the device has shared memory for: up to the entry's default.
std::int64_t block_rows(Scheme scheme, const Tensors& t) {
    const auto limit = std::size_t(device_limits(t[0].device()).shared_bytes_per_block_optin);
    const BlockedShape shape{.scheme = scheme, .type = tensor_argument("Q", t[0]).type, .head_dim = t[0].size(3)};
    return std::clamp<std::int64_t>(largest_block_rows(shape, t[1].size(2), limit), 1, kDefaultBlockRows);
}

template <auto Run, auto Bytes, Scheme Which>
constexpr AttentionEntry blocked(const char* name) {
    return {
        name,
        [](const Tensors& t, const Problem& p) { return Run(t[0], t[1], t[2], options_of(p), block_rows(Which, t)); },
        [](const Tensors& t, const Problem& p) {
            return Bytes(t[0], t[1], t[2], options_of(p), block_rows(Which, t));
        }};
}

constexpr AttentionEntry kFa2 = plain<fa2_forward, fa2_forward_bytes>("fa2_forward");

constexpr AttentionEntry kAttentionEntries[] = {
    plain<online_attention, online_attention_bytes>("online_attention"),
    plain<standard_attention, standard_attention_bytes>("standard_attention"),
    blocked<q_blocked_attention, q_blocked_bytes, Scheme::q_blocked>("q_blocked_attention"),
    blocked<qv_blocked_attention, qv_blocked_bytes, Scheme::qv_blocked>("qv_blocked_attention"),
    plain<fa1_plain_forward, fa1_plain_bytes>("fa1_plain_forward"),
    plain<fa1_forward, fa1_forward_bytes>("fa1_forward"),
    plain<fa2_plain_forward, fa2_plain_bytes>("fa2_plain_forward"),
    kFa2,
    plain<causal_plain_forward, causal_plain_bytes>("causal_plain_forward"),
    plain<causal_forward, causal_forward_bytes>("causal_forward"),
    decoding<flash_decode_plain, flash_decode_plain_bytes>("flash_decode_plain"),
    decoding<flash_decode, flash_decode_bytes>("flash_decode"),
};

double total(const GlobalBytes& bytes) { return double(bytes.read) + double(bytes.written); }

Contestant counted(const Problem& problem, GlobalBytes bytes) {
    return {.flops = useful_flops(problem), .useful_bytes = useful_bytes(problem), .moved_bytes = total(bytes)};
}

Contestant contestant(const AttentionEntry& entry, const Problem& problem, const Tensors& inputs) {
    Contestant result = counted(problem, entry.bytes(inputs, problem));
    result.name = entry.name;
    result.call = [entry, problem](const Tensors& t) -> Tensors {
        const AttentionResult r = entry.run(t, problem);
        return {r.out, r.lse};
    };
    return result;
}

/// The first kernel of a split decode alone. What the whole takes more is the price of merging.
Contestant parts_step(const Problem& problem, const Tensors& inputs, std::int64_t splits) {
    const auto expected = std::make_shared<const Expected>(problem, inputs);
    const double parts = double(splits) * double(inputs[0].numel()) * sizeof(float);
    return {.name = "flash_decode_parts",
            .role = Role::step,
            .call = [problem](const Tensors& t) -> Tensors {
                const AttentionResult r = flash_decode_parts(t[0], t[1], t[2], decode_options_of(problem));
                return {r.out, r.lse};
            },
            .judge =
                [expected, type = inputs[0].scalar_type()](const Tensors& outputs) {
                    const torch::Tensor lse = outputs[1].to(torch::kFloat64);
                    const torch::Tensor out = (at::softmax(lse, 0).unsqueeze(-1) * outputs[0]).sum(0);
                    return expected->judge({out.to(type), at::logsumexp(lse, 0).to(torch::kFloat32)});
                },
            .useful_bytes = useful_bytes(problem) + parts};
}

}  // namespace

Contestant entry_named(const std::string& name, const Problem& problem, const Tensors& inputs) {
    for (const SoftmaxEntry& entry : kSoftmaxEntries) {
        if (name != entry.name) continue;
        Contestant result = counted(problem, entry.bytes(inputs[0]));
        result.name = name;
        result.call = [entry](const Tensors& t) { return Tensors{entry.run(t[0])}; };
        return result;
    }
    for (const AttentionEntry& entry : kAttentionEntries)
        if (name == entry.name) return contestant(entry, problem, inputs);
    throw std::invalid_argument(fmt::format("there is no entry \"{}\" to measure", name));
}

std::vector<Contestant> companions(const std::vector<std::string>& entries, const Problem& problem,
                                   const Tensors& inputs) {
    std::vector<Contestant> result;
    for (const std::string& entry : entries) {
        if (entry == "flash_decode") {
            const int splits = flash_decode_splits(inputs[0], inputs[1], inputs[2], decode_options_of(problem));
            if (splits > 1) result.push_back(parts_step(problem, inputs, splits));
        }
        if (entry == "causal_forward" && problem.mask != Mask::none) {
            Problem unmasked = problem;
            unmasked.mask = Mask::none;
            Contestant fa2 = contestant(kFa2, unmasked, inputs);
            fa2.name = "fa2";
            fa2.role = Role::peer;
            const auto expected = std::make_shared<const Expected>(unmasked, inputs);
            fa2.judge = [expected](const Tensors& outputs) { return expected->judge(outputs); };
            result.push_back(fa2);
        }
    }
    return result;
}

}  // namespace ladder::cli::bench
