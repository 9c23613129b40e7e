// What wrong host code is put through: the entries of several phases, with their right kernels.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "common/attention/attention.h"
#include "common/attention/check.h"
#include "common/attention/outputs.h"
#include "common/reference/bad_inputs.h"
#include "common/reference/gradient_cases.h"
#include "common/reference/gradient_comparison.h"
#include "common/simt/device/device.h"
#include "common/simt/memory/global_memory.h"
#include "phase2_fa1/fa1.h"
#include "phase3_fa2/fa2.h"
#include "phase4_causal/causal.h"
#include "phase5_decoding/decode.h"
#include "phase5_decoding/split_plan.h"
#include "phase6_tensor_cores/mma.h"
#include "phase8_backward/backward.h"
#include "tests/mutants/trials.h"

namespace ladder::mutants {
namespace {

using reference::Layout, reference::Layouts;
using ::testing::AssertionFailure, ::testing::AssertionResult, ::testing::AssertionSuccess;

reference::AttentionEntry decode(std::optional<int64_t> splits, std::optional<torch::Tensor> kv_lengths = {}) {
    return [=](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {
        return flash_decode(q, k, v, {.attention = options, .kv_lengths = kv_lengths, .splits = splits});
    };
}

/// Every call of bad_inputs() is refused, in words that name what is wrong.
AssertionResult refuses_bad_input(const reference::AttentionEntry& entry) {
    for (const reference::BadInput& bad : reference::bad_inputs(torch::kCPU)) {
        const auto refused =
            reference::throws_mentioning([&] { entry(bad.q, bad.k, bad.v, bad.options); }, bad.mentions);
        if (!refused) return AssertionFailure() << bad.name << ": " << refused.message();
    }
    return AssertionSuccess();
}

AssertionResult refuses_masks(const reference::AttentionEntry& entry, const std::vector<Mask>& masks) {
    const torch::Tensor x = at::ones({1, 1, 4, 8});
    for (const Mask mask : masks) {
        const auto refused =
            reference::throws_mentioning([&] { entry(x, x, x, {.scale = {}, .mask = mask}); }, {"mask:"});
        if (!refused) return AssertionFailure() << "mask " << int(mask) << ": " << refused.message();
    }
    return AssertionSuccess();
}

/// O [2, 3] and LSE [2] that no kernel wrote, but for what `written` returns of them.
AssertionResult misses_what_was_not_written(torch::Tensor AttentionResult::*written, const std::string& missing) {
    const AttentionResult result{.out = allocate({2, 3}, torch::kFloat32), .lse = allocate({2}, torch::kFloat32)};
    const torch::Tensor& whole = result.*written;
    simt::note_host_write(whole.data_ptr(), whole.nbytes());
    return reference::throws_mentioning([&] { check_written("a_kernel", result); },
                                        {"a_kernel", missing, "were never written"});
}

AssertionResult fresh_memory_is_poisoned() {
    const PoisonOutputs poison;
    const bool poisoned = allocate({2, 3}, torch::kFloat16).isnan().all().item<bool>();
    return poisoned ? AssertionSuccess() : AssertionFailure() << "memory for results is not filled with NaN";
}

AssertionResult takes_all_of_the_shared_memory_and_no_more() {
    const std::size_t limit = std::size_t(simt::cpu_device().shared_bytes_per_block_optin);
    check_shared_memory("a_kernel", limit, torch::kCPU, "a remedy");
    return reference::throws_mentioning([&] { check_shared_memory("a_kernel", limit + 1, torch::kCPU, "a remedy"); },
                                        {"a_kernel", std::to_string(limit), std::to_string(limit + 1), "a remedy"});
}

/// Of so many keys that more splits pay than a caller may ask for, on a device of so many multiprocessors; and of few.
AssertionResult plans_no_more_splits_than_there_may_be() {
    simt::Device device = simt::cpu_device();
    for (const int multiprocessors : {1, 100, 10'000}) {
        device.multiprocessors = multiprocessors;
        for (const int64_t tiles : {1, 2, 7, 1000, 100'000}) {
            const int splits = choose_splits({.key_tiles = tiles}, device);
            if (splits > tiles || splits > kMaxSplits)
                return AssertionFailure() << splits << " splits of " << tiles << " tiles of keys";
        }
    }
    return AssertionSuccess();
}

AssertionResult refuses_lengths(const std::vector<int64_t>& lengths) {
    const torch::Tensor q = at::ones({2, 1, 1, 8}), k = at::ones({2, 1, 40, 8});
    return reference::throws_mentioning(
        [&] { flash_decode(q, k, k, {.kv_lengths = at::tensor(lengths, torch::kInt64)}); }, {"kv_lengths:", "40"});
}

AssertionResult refuses_splits(int64_t splits) {
    const torch::Tensor q = at::ones({1, 1, 1, 8});
    return reference::throws_mentioning([&] { flash_decode(q, q, q, {.splits = splits}); },
                                        {"splits:", std::to_string(splits)});
}

/// Tensor cores have no float32: whoever asks for it learns who has.
AssertionResult names_who_takes_float32() {
    const torch::Tensor x = at::ones({1, 1, 4, 8});
    return reference::throws_mentioning([&] { mma_forward(x, x, x); }, {"mma_forward", "fa2_forward"});
}

/// A device that lacks one feature, and has all others, is refused before anything is launched there.
AssertionResult asks_the_device_for(simt::Feature missing) {
    simt::Device device = simt::cpu_device();
    device.features = {};
    for (const simt::FeatureFacts& facts : simt::kFeatureFacts)
        if (facts.feature != missing) device.features.add(facts.feature);
    const simt::ScopedCpuDevice imitated(device);
    const torch::Tensor x = at::ones({1, 1, 4, 8}).to(torch::kFloat16);
    return reference::throws_mentioning([&] { mma_forward(x, x, x); }, {"mma_forward needs", "does not have"});
}

/// Where a block gets no more shared memory than this, too little for heads of 128, a caller learns it in words.
AssertionResult tells_what_tiles_need(int shared_bytes) {
    simt::Device device = simt::cpu_device();
    device.shared_bytes_per_block = device.shared_bytes_per_block_optin = shared_bytes;
    const simt::ScopedCpuDevice imitated(device);
    const torch::Tensor x = at::ones({1, 1, 4, 128}).to(torch::kFloat16);
    const auto refused = reference::throws_mentioning([&] { mma_forward(x, x, x); },
                                                      {"mma_forward", "a smaller head dimension needs less"});
    if (!refused) return AssertionFailure() << shared_bytes << " bytes: " << refused.message();
    return AssertionSuccess();
}

/// Gradients of a group of heads, with a loss that looks at LSE.
AssertionResult differentiates(torch::ScalarType dtype, DqGather gather) {
    reference::AttentionCase problem{
        .query_heads = 2, .query_length = 40, .key_length = 70, .head_dim = 16, .options = {.scale = 0.3}, .seed = 6};
    problem.dtype = dtype;
    const reference::BackwardInputs x = reference::make_backward_inputs(problem, torch::kCPU);
    const AttentionGradients result =
        plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {.gather = gather}, x.dlse);
    const auto verdict = reference::compare_gradients(result, x.q, x.k, x.v, {x.out, x.lse}, x.dout, x.options, x.dlse);
    if (verdict.passed) return AssertionSuccess();
    return AssertionFailure() << verdict.report;
}

/// A call that would be accepted, but for what `spoil` does to it.
AssertionResult refuses_to_differentiate(const std::string& name,
                                         const std::function<void(reference::BackwardInputs&)>& spoil) {
    reference::BackwardInputs x =
        reference::make_backward_inputs({.query_length = 4, .key_length = 6, .head_dim = 8}, torch::kCPU);
    spoil(x);
    return reference::throws_mentioning(
        [&] { plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {}, x.dlse); }, {name + ":"});
}

AssertionResult refuses_an_unknown_gather() {
    const reference::BackwardInputs x =
        reference::make_backward_inputs({.query_length = 4, .key_length = 6, .head_dim = 8}, torch::kCPU);
    return reference::throws_mentioning(
        [&] { plain_backward(x.dout, x.q, x.k, x.v, x.out, x.lse, x.options, {.gather = static_cast<DqGather>(7)}); },
        {"gather:", "7"});
}

/// The operator that autograd follows, by a loss that looks at both of its results, and hands on gradients without
/// memory of their own: as autograd gives that of a sum.
AssertionResult autograd_follows(Mask mask, std::optional<double> scale) {
    const reference::BackwardInputs x = reference::make_backward_inputs({.query_heads = 2,
                                                                         .query_length = 20,
                                                                         .key_length = 33,
                                                                         .head_dim = 16,
                                                                         .options = {.scale = scale, .mask = mask}},
                                                                        torch::kCPU);
    const torch::Tensor q = x.q.detach().requires_grad_(), k = x.k.detach().requires_grad_(),
                        v = x.v.detach().requires_grad_();
    const AttentionResult result = attention_with_lse(q, k, v, x.options);
    const torch::Tensor dout = at::full({1}, 0.7, x.q.options()).expand(x.q.sizes()),
                        dlse = at::full({1}, -0.4, x.lse.options()).expand(x.lse.sizes());
    const auto d = torch::autograd::grad({result.out, result.lse}, {q, k, v}, {dout, dlse});
    const auto verdict = reference::compare_gradients({.dq = d[0], .dk = d[1], .dv = d[2]}, x.q, x.k, x.v,
                                                      {result.out.detach(), result.lse.detach()}, dout.contiguous(),
                                                      x.options, dlse.contiguous());
    if (verdict.passed) return AssertionSuccess();
    return AssertionFailure() << verdict.report;
}

/// An operator without a backward pass refuses each tensor that requires grad, and takes it where nobody asks.
AssertionResult loses_no_gradient() {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("flash_ladder::fa2_forward", "");
    for (std::size_t place = 0; place < 3; ++place) {
        std::vector<c10::IValue> stack(4);
        for (std::size_t i = 0; i < 3; ++i) stack[i] = at::ones({1, 1, 4, 8}).requires_grad_(i == place);
        std::vector<c10::IValue> again = stack;
        const auto refused = reference::throws_mentioning([&] { op.callBoxed(&stack); },
                                                          {"requires grad", "flash_ladder::attention has one"});
        if (!refused) return AssertionFailure() << "argument " << place << ": " << refused.message();
        const at::NoGradGuard nobody;
        op.callBoxed(&again);
    }
    return AssertionSuccess();
}

/// Who asks for a gradient of a gradient must not get a zero.
AssertionResult has_no_second_derivative() {
    const torch::Tensor x = at::ones({1, 1, 4, 8}).requires_grad_();
    const torch::Tensor out = attention(x, x, x);
    const auto first = torch::autograd::grad({out}, {x}, {at::ones_like(out.detach())}, true, true);
    return reference::throws_mentioning([&] { torch::autograd::grad({first[0].sum()}, {x}); },
                                        {"no second derivative"});
}

}  // namespace

std::vector<Trial> trials(torch::ScalarType dtype) {
    std::vector<Trial> trials;
    const auto add_check = [&](const std::string& name, const auto& check) { trials.push_back(trial(name, check)); };
    // First, before the machine has seen memory that later calls get again.
    add_check("lse_unwritten", [] { return misses_what_was_not_written(&AttentionResult::out, "LSE"); });
    add_check("out_unwritten", [] { return misses_what_was_not_written(&AttentionResult::lse, "of O"); });
    for (Trial& trial : attention_trials(causal_forward, dtype)) trials.push_back(std::move(trial));
    const auto add = [&](const std::string& name, const reference::AttentionEntry& entry,
                         reference::AttentionCase problem, std::optional<torch::Tensor> kv_lengths = {}) {
        problem.name = name;
        problem.dtype = dtype;
        problem.seed = trials.size();
        trials.push_back(attention_trial(entry, problem, kv_lengths));
    };
    const reference::AttentionCase grouped{
        .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 20, .key_length = 33, .head_dim = 16};

    for (const auto& [name, mask] :
         {std::pair("bottom_right", Mask::causal_bottom_right), {"top_left", Mask::causal_top_left}}) {
        reference::AttentionCase masked = grouped;
        masked.options.mask = mask;
        add(name, causal_forward, masked);
    }
    for (const auto& [name, scale] : {std::pair("scale_of_zero", 0.0), {"negative_scale", -0.3}}) {
        reference::AttentionCase scaled = grouped;
        scaled.options.scale = scale;
        add(name, fa2_forward, scaled);
    }
    for (const int64_t head_dim : {48, 192, 256})
        add("default_scale_" + std::to_string(head_dim), fa2_forward,
            {.query_length = 5, .key_length = 9, .head_dim = head_dim});
    for (const auto& [name, layouts] :
         {std::pair("expanded", Layouts{Layout::contiguous, Layout::expanded_heads, Layout::expanded_batch}),
          {"windows", Layouts{Layout::packed_qkv, Layout::sliced_offset, Layout::bshd}},
          {"unaligned", Layouts{Layout::bshd, Layout::padded_rows, Layout::shifted}}}) {
        reference::AttentionCase laid_out = grouped;
        laid_out.layouts = layouts;
        for (const auto& [phase, entry] : {std::pair<std::string, reference::AttentionEntry>{"fa1 ", fa1_forward},
                                           {"fa2 ", fa2_forward},
                                           {"decode ", decode({})}})
            add(phase + name, entry, laid_out);
    }
    reference::AttentionCase cached = grouped;
    cached.key_length = 300;
    for (const auto& [name, mask] : {std::pair("tensor_cores_bottom_right", Mask::causal_bottom_right),
                                     {"tensor_cores_top_left", Mask::causal_top_left}}) {
        reference::AttentionCase masked = grouped;
        masked.options.mask = mask;
        masked.name = name;
        masked.dtype = torch::kFloat16;
        trials.push_back(attention_trial(mma_forward, masked));
    }
    const torch::Tensor lengths = at::tensor(at::ArrayRef<int64_t>{300, 129}, torch::kInt64);
    for (const int64_t splits : {1, 3}) add("lengths", decode(splits, lengths), cached, lengths);

    add_check("bad_input", [] { return refuses_bad_input(fa2_forward); });
    add_check("masks_of_fa2", [] {
        return refuses_masks(fa2_forward, {Mask::causal_bottom_right, Mask::causal_top_left, static_cast<Mask>(9)});
    });
    add_check("masks_of_decode", [] {
        return refuses_masks(decode({}), {Mask::causal_top_left, static_cast<Mask>(9)});
    });
    for (const auto& [name, mask] : {std::pair("autograd", Mask::none),
                                     {"autograd_bottom_right", Mask::causal_bottom_right},
                                     {"autograd_top_left", Mask::causal_top_left}})
        add_check(name, [mask] { return autograd_follows(mask, 0.3); });
    add_check("autograd_default_scale", [] { return autograd_follows(Mask::none, {}); });
    add_check("lost_gradients", loses_no_gradient);
    add_check("second_derivative", has_no_second_derivative);
    add_check("poison", fresh_memory_is_poisoned);
    add_check("shared_memory", takes_all_of_the_shared_memory_and_no_more);
    add_check("planned_splits", plans_no_more_splits_than_there_may_be);
    add_check("float32_on_tensor_cores", names_who_takes_float32);
    add_check("device_without_mma", [] { return asks_the_device_for(simt::Feature::mma); });
    add_check("device_without_cp_async", [] { return asks_the_device_for(simt::Feature::cp_async); });
    // Enough for neither kernel; and for the lesson's, which has one stage.
    add_check("tiles_too_large", [] { return tells_what_tiles_need(40 * 1024); });
    add_check("stages_too_large", [] { return tells_what_tiles_need(60 * 1024); });
    add_check("length_too_long", [] { return refuses_lengths({40, 41}); });
    add_check("length_negative", [] { return refuses_lengths({40, -1}); });
    add_check("no_splits", [] { return refuses_splits(0); });
    add_check("too_many_splits", [] { return refuses_splits(kMaxSplits + 1); });
    for (const auto type : {torch::kFloat32, torch::kFloat16}) {
        add_check("gradients", [type] { return differentiates(type, DqGather::second_pass); });
        add_check("gradients_by_atomics", [type] { return differentiates(type, DqGather::atomics); });
    }
    using reference::BackwardInputs;
    add_check("dout_too_short", [] {
        return refuses_to_differentiate("dout", [](BackwardInputs& x) { x.dout = x.dout.narrow(2, 0, 3); });
    });
    add_check("out_in_float16", [] {
        return refuses_to_differentiate("out", [](BackwardInputs& x) { x.out = x.out.to(torch::kFloat16); });
    });
    add_check("lse_too_short",
              [] { return refuses_to_differentiate("lse", [](BackwardInputs& x) { x.lse = x.lse.narrow(2, 0, 3); }); });
    add_check("dlse_too_short", [] {
        return refuses_to_differentiate("dlse", [](BackwardInputs& x) { x.dlse = x.dlse.narrow(2, 0, 3); });
    });
    add_check("unknown_gather", refuses_an_unknown_gather);
    return trials;
}

}  // namespace ladder::mutants
