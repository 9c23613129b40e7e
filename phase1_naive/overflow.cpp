#include "phase1_naive/overflow.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/attention/check.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "phase1_naive/launches.h"

namespace ladder {
namespace {

void check_shape(const BlockedShape& shape) {
    const auto check = [](const std::string& name, int64_t got, int64_t most) {
        if (got < 1 || got > most)
            throw std::invalid_argument(name + ": it is " + std::to_string(got) + "; 1 to " + std::to_string(most) +
                                        " are accepted");
    };
    check("head_dim", shape.head_dim, kMaxHeadDim);
    check("block_rows", shape.block_rows, kMaxBlockRows);
}

torch::ScalarType scalar_type(simt::ElementType type) {
    switch (type) {
        case simt::ElementType::f16:
            return torch::kFloat16;
        case simt::ElementType::bf16:
            return torch::kBFloat16;
        case simt::ElementType::f32:
            return torch::kFloat32;
        case simt::ElementType::i32:
        case simt::ElementType::e4m3:
        case simt::ElementType::e5m2:
            break;
    }
    throw std::invalid_argument(std::string(name_of(type)) + ": accepts float32, float16 and bfloat16");
}

std::vector<int64_t> table_lengths(const BlockedShape& shape, std::size_t limit, int64_t largest) {
    std::vector<int64_t> lengths{largest + 1};
    if (largest > 0) lengths.push_back(largest);
    int beyond = 0;
    for (int64_t length = 32; beyond < 2; length *= 2) {
        lengths.push_back(length);
        beyond += shared_need(shape, length).total() > limit;
    }
    std::ranges::sort(lengths);
    lengths.erase(std::ranges::unique(lengths).begin(), lengths.end());
    return lengths;
}

/// Straight to the device, past every check on the host.
OverflowRun launch(const OverflowQuestion& question, int64_t key_length) {
    const BlockedShape& shape = question.shape;
    // Drawn on the CPU and with a seed of their own: the same numbers on every device and every run.
    const at::Generator numbers = at::detail::createCPUGenerator(/*seed_val=*/1);
    const auto random = [&](int64_t rows) {
        return at::randn({1, 1, rows, shape.head_dim}, numbers, at::TensorOptions().dtype(torch::kFloat32))
            .to(question.device, scalar_type(shape.type));
    };
    OverflowRun run{.q = random(shape.block_rows), .k = random(key_length), .v = random(key_length), .result = {}};
    run.result = {.out = allocate(run.q.sizes(), run.q.options()),
                  .lse = allocate({1, 1, shape.block_rows}, run.q.options().dtype(torch::kFloat32))};
    run.shared_bytes_per_block = shared_need(shape, key_length).total();
    const BlockedArguments arguments{attention_arguments(run.q, run.k, run.v, run.result.out, run.result.lse, {}),
                                     int(shape.block_rows)};
    if (shape.scheme == Scheme::q_blocked)
        run_on(question.device, cpu::launch_q_blocked, cuda::launch_q_blocked, arguments);
    else
        run_on(question.device, cpu::launch_qv_blocked, cuda::launch_qv_blocked, arguments);
    check_written(shape.scheme == Scheme::q_blocked ? "q_blocked_attention" : "qv_blocked_attention", run.result);
    return run;
}

simt::LaunchError refusal_of(const OverflowQuestion& question, int64_t key_length) {
    try {
        launch(question, key_length);
    } catch (const simt::LaunchError& refused) {
        return refused;
    }
    throw std::logic_error("the overflow demo: the device ran " + std::to_string(key_length) +
                           " keys, which by its own limits cannot fit");
}

}  // namespace

OverflowAnswer overflow(const OverflowQuestion& question) {
    check_shape(question.shape);
    const simt::Device limits = device_limits(question.device);
    const auto by_default = std::size_t(limits.shared_bytes_per_block),
               with_optin = std::size_t(limits.shared_bytes_per_block_optin);
    const int64_t largest = largest_key_length(question.shape, with_optin);

    std::vector<OverflowRow> rows;
    for (const int64_t length : table_lengths(question.shape, with_optin, largest)) {
        const SharedNeed need = shared_need(question.shape, length);
        rows.push_back({.key_length = length,
                        .need = need,
                        .fits_without_asking = need.total() <= by_default,
                        .fits = need.total() <= with_optin});
    }
    std::optional<OverflowRun> run;
    if (largest > 0) run = launch(question, largest);
    return {.limits = limits,
            .shape = question.shape,
            .rows = std::move(rows),
            .largest_key_length = largest,
            .run = std::move(run),
            .refusal = refusal_of(question, largest + 1)};
}

}  // namespace ladder
