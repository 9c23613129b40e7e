#include "phase5_decoding/decode.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/registration.h"
#include "common/attention/rungs.h"
#include "common/torch/torch.h"
#include "phase5_decoding/decode_arguments.h"
#include "phase5_decoding/split_plan.h"

namespace ladder {

// decode.cuh, decode_pipelined.cuh and combine.cuh, compiled once per machine.
namespace cpu {
void launch_decode_split(const DecodeArguments&);
void launch_decode_pipelined(const DecodeArguments&);
void launch_decode_combine(const CombineArguments&);
std::uint64_t decode_split_keys(const DecodeArguments&, std::int64_t length);
GlobalBytes decode_split_bytes(const DecodeArguments&, std::uint64_t keys);
GlobalBytes decode_pipelined_bytes(const DecodeArguments&, std::uint64_t keys);
std::size_t decode_pipelined_shared_bytes(const DecodeArguments&);
GlobalBytes decode_combine_bytes(const CombineArguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_decode_split(const DecodeArguments&);
[[gnu::weak]] void launch_decode_pipelined(const DecodeArguments&);
[[gnu::weak]] void launch_decode_combine(const CombineArguments&);
}  // namespace cuda

namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right};

template <class... Part>
[[noreturn]] void refuse(const Part&... part) {
    std::ostringstream message;
    (message << ... << part);
    throw std::invalid_argument(message.str());
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_rows(const char* name, int64_t rows) {
    if (rows > kMaxLength)
        refuse(name, ": it has ", rows, " query rows in all; at most ", kMaxLength, " are accepted, split the batch");
}

/// The keys of each sequence, checked, on the host.
std::vector<int64_t> lengths_of(const std::optional<torch::Tensor>& kv_lengths, const torch::Tensor& k) {
    const int64_t batch = k.size(0), capacity = k.size(2);
    if (!kv_lengths) return std::vector<int64_t>(batch, capacity);
    if (!kv_lengths->defined()) refuse("kv_lengths: the tensor is undefined; pass one of shape [", batch, "], or none");
    if (kv_lengths->layout() != torch::kStrided)
        refuse("kv_lengths: the layout is ", kv_lengths->layout(), "; dense (strided) tensors are accepted");
    if (kv_lengths->scalar_type() != torch::kInt32 && kv_lengths->scalar_type() != torch::kInt64)
        refuse("kv_lengths: the dtype is ", kv_lengths->scalar_type(),
               "; int32 and int64 are accepted, convert with .to(…)");
    if (kv_lengths->device() != k.device())
        refuse("kv_lengths: the device is ", kv_lengths->device(), ", but k's is ", k.device(),
               "; they must be on one device");
    if (kv_lengths->dim() != 1 || kv_lengths->size(0) != batch)
        refuse("kv_lengths: the shape is ", shape_of(*kv_lengths), "; [", batch,
               "] is accepted, one length for each sequence of the batch");
    const torch::Tensor on_host = kv_lengths->to(torch::kCPU, torch::kInt64).contiguous();
    const std::vector<int64_t> lengths(on_host.data_ptr<int64_t>(), on_host.data_ptr<int64_t>() + batch);
    for (int64_t b = 0; b < batch; ++b)
        if (lengths[b] < 0 || lengths[b] > capacity)
            refuse("kv_lengths: the length of sequence ", b, " is ", lengths[b], "; 0 to ", capacity,
                   " are accepted, the length of k");
    return lengths;
}

int checked_splits(int64_t splits, int64_t row_tiles) {
    const int64_t most =
        std::min<int64_t>(kMaxSplits, std::numeric_limits<int>::max() / row_tiles);  // grid x is an int
    if (splits < 1 || splits > most)
        refuse("splits: it is ", splits, "; 1 to ", most, " are accepted, or none for the planned number");
    return int(splits);
}

/// Which kernel a call is for.
enum class Kernel { chosen, plain, pipelined };

/// Why the pipelined kernel cannot take the problem, whatever the device; empty if it can.
std::string pipelined_complaint(const torch::Tensor& q, const DecodeArguments& a) {
    if (a.q.type == simt::ElementType::f32)
        return std::string("q: the dtype is ") + c10::toString(q.scalar_type()) + "; accepts float16 and bfloat16";
    if (!a.q.rows_aligned_to_16_bytes() || !a.k.rows_aligned_to_16_bytes() || !a.v.rows_aligned_to_16_bytes())
        return "q, k, v: their rows must start at multiples of 16 bytes and be multiples of 16 bytes long";
    if (a.key_length() > kMostPipelinedKeys)
        return "k: it has " + std::to_string(a.key_length()) + " keys; accepts up to " +
               std::to_string(kMostPipelinedKeys);
    if (a.mask != Mask::none && a.query_length() > 1)
        return "mask: with several query tokens, none is accepted: all rows must see the same keys";
    return {};
}

constexpr std::array kPipelinedFeatures{simt::Feature::cp_async, simt::Feature::ldmatrix, simt::Feature::mma};

bool has_pipelined_features(const simt::Device& device) {
    return std::ranges::all_of(kPipelinedFeatures, [&](simt::Feature feature) { return device.has_feature(feature); });
}

/// The most warps of a block of the pipelined kernel for which the device has the shared memory.
int most_pipelined_warps(DecodeArguments a, const simt::Device& device) {
    a.warps = kMostPipelinedWarps;
    const bool fits = cpu::decode_pipelined_shared_bytes(a) <= std::size_t(device.shared_bytes_per_block_optin);
    return fits ? kMostPipelinedWarps : kFewPipelinedWarps;
}

/// Blocks of the pipelined kernel that live on one multiprocessor at a time: shared memory is what there is least of.
int pipelined_resident(const DecodeArguments& a, const simt::Device& device) {
    constexpr std::size_t reserved = 1024;  // by CUDA, for each block
    return std::max(1, device.shared_bytes_per_multiprocessor / int(cpu::decode_pipelined_shared_bytes(a) + reserved));
}

/// Sets `a.splits`, and the warps that suit so many blocks.
void set_splits(int splits, std::int64_t blocks_per_split, const simt::Device& device, DecodeArguments& a) {
    a.splits = splits;
    DecodeArguments smaller = a;
    smaller.warps = kFewPipelinedWarps;
    if (a.warps && a.head_dim() > kMostWarpsUpTo && pipelined_resident(smaller, device) >= 2 &&
        come_in_pairs(blocks_per_split * splits, device))
        a.warps = kFewPipelinedWarps;
}

/// Sets `a.warps`: how the kernel that was asked for, or the one that suits the device, takes the problem.
void choose_kernel(Kernel kernel, const torch::Tensor& q, const simt::Device& device, DecodeArguments& a) {
    if (kernel == Kernel::plain) return;
    const std::string complaint = pipelined_complaint(q, a);
    DecodeArguments pipelined = a;
    pipelined.warps = most_pipelined_warps(a, device);
    const std::size_t shared_bytes = cpu::decode_pipelined_shared_bytes(pipelined);
    if (kernel == Kernel::pipelined) {
        if (!complaint.empty()) refuse("flash_decode_pipelined: ", complaint);
        for (const simt::Feature feature : kPipelinedFeatures)
            simt::require_feature(device, feature, "flash_decode_pipelined");
        check_shared_memory("flash_decode_pipelined", shared_bytes, q.device(), "a smaller head dimension needs less");
    } else if (!complaint.empty() || !has_pipelined_features(device) ||
               shared_bytes > std::size_t(device.shared_bytes_per_block_optin)) {
        return;
    }
    a.warps = pipelined.warps;
}

/// A call, in plain numbers.
struct Described {
    DecodeArguments arguments;
    std::vector<int64_t> lengths;  ///< keys of each sequence
};

/// Checks a call and describes it, all but the memory for results; cut into `least_splits` pieces or more.
Described described(Kernel kernel, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                    const DecodeOptions& options, int least_splits = 1) {
    Described call;
    DecodeArguments& arguments = call.arguments;
    static_cast<AttentionArguments&>(arguments) = checked_arguments(q, k, v, options.attention, kMasks);
    check_rows("q", arguments.rows());
    call.lengths = lengths_of(options.kv_lengths, k);
    const simt::Device device = device_limits(q.device());
    choose_kernel(kernel, q, device, arguments);

    const int row_tile =
        arguments.warps ? kPipelinedRows : row_tile_size(arguments.rows_per_kv_head(), arguments.head_dim());
    const int64_t row_tiles = ceil_div(arguments.rows_per_kv_head(), row_tile);
    const int64_t longest = *std::max_element(call.lengths.begin(), call.lengths.end());
    DecodeWork work{.blocks = k.size(0) * k.size(1) * row_tiles,
                    .key_tiles = std::max<int64_t>(1, ceil_div(longest, kKeyTile)),
                    .resident_blocks = resident_blocks(row_tile)};
    if (arguments.warps) {
        work.resident_blocks = pipelined_resident(arguments, device);
        work.block_overhead = kPipelinedBlockOverhead;
        work.speed_alone = kPipelinedSpeedAlone;
    }
    const int splits = options.splits ? checked_splits(*options.splits, row_tiles) : choose_splits(work, device);
    set_splits(std::max(least_splits, splits), work.blocks, device, arguments);
    return call;
}

/// The lengths as the kernel reads them.
simt::TensorArgument lengths_argument(const torch::Tensor& int32_lengths) {
    return {.name = "kv_lengths",
            .data = int32_lengths.data_ptr(),
            .type = simt::ElementType::i32,
            .rank = 1,
            .extents = {int32_lengths.size(0)},
            .strides = {1}};
}

/// Launches the kernel that the arguments name: it writes O and LSE of the whole (one split), or of each piece.
void launch_first(const torch::Tensor& q, const DecodeOptions& options, DecodeArguments arguments) {
    torch::Tensor lengths;
    if (options.kv_lengths) {
        lengths = options.kv_lengths->to(torch::kInt32).contiguous();
        arguments.kv_lengths = lengths_argument(lengths);
    }
    if (arguments.warps)
        run_on(q.device(), cpu::launch_decode_pipelined, cuda::launch_decode_pipelined, arguments);
    else
        run_on(q.device(), cpu::launch_decode_split, cuda::launch_decode_split, arguments);
}

/// Memory for one O and one LSE of each piece of the keys, which `arguments` then knows: out and lse of
/// flash_decode_parts().
AttentionResult allocate_parts(const torch::Tensor& q, DecodeArguments& arguments) {
    const auto in_float32 = q.options().dtype(torch::kFloat32);
    const int64_t splits = arguments.splits;
    const AttentionResult parts{.out = allocate({splits, q.size(0), q.size(1), q.size(2), q.size(3)}, in_float32),
                                .lse = allocate({splits, q.size(0), q.size(1), q.size(2)}, in_float32)};
    arguments.out_parts = tensor_argument("O_part", parts.out.view({splits, -1, q.size(3)}));
    arguments.lse_parts = tensor_argument("LSE_part", parts.lse.view({splits, -1}));
    return parts;
}

AttentionResult run(const char* entry, Kernel kernel, const torch::Tensor& q, const torch::Tensor& k,
                    const torch::Tensor& v, const DecodeOptions& options) {
    DecodeArguments arguments = described(kernel, q, k, v, options).arguments;
    const AttentionResult result = allocate_result(q, arguments);
    arguments.out = tensor_argument("O", result.out.view({-1, q.size(3)}));
    arguments.lse = tensor_argument("LSE", result.lse.view({-1}));
    AttentionResult parts;
    if (arguments.splits > 1) parts = allocate_parts(q, arguments);
    launch_first(q, options, arguments);
    if (arguments.splits > 1)
        run_on(q.device(), cpu::launch_decode_combine, cuda::launch_decode_combine,
               CombineArguments{.out_parts = arguments.out_parts,
                                .lse_parts = arguments.lse_parts,
                                .out = arguments.out,
                                .lse = arguments.lse});
    check_written(entry, result);
    return result;
}

GlobalBytes bytes_of(Kernel kernel, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const DecodeOptions& options) {
    auto [arguments, lengths] = described(kernel, q, k, v, options);
    if (options.kv_lengths) arguments.kv_lengths.rank = 1;
    std::uint64_t keys = 0;
    for (const int64_t length : lengths)
        keys += arguments.warps ? std::uint64_t(length) : cpu::decode_split_keys(arguments, length);
    GlobalBytes bytes =
        arguments.warps ? cpu::decode_pipelined_bytes(arguments, keys) : cpu::decode_split_bytes(arguments, keys);
    if (arguments.splits > 1) {
        CombineArguments combine;
        combine.out_parts.extents = {arguments.splits, arguments.rows(), arguments.head_dim()};
        combine.out.type = arguments.q.type;
        const GlobalBytes merging = cpu::decode_combine_bytes(combine);
        bytes.read += merging.read;
        bytes.written += merging.written;
    }
    return bytes;
}

}  // namespace

AttentionResult flash_decode(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const DecodeOptions& options) {
    return run("flash_decode", Kernel::chosen, q, k, v, options);
}

AttentionResult flash_decode_plain(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const DecodeOptions& options) {
    return run("flash_decode_plain", Kernel::plain, q, k, v, options);
}

AttentionResult flash_decode_pipelined(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                       const DecodeOptions& options) {
    return run("flash_decode_pipelined", Kernel::pipelined, q, k, v, options);
}

AttentionResult flash_decode_parts(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const DecodeOptions& options) {
    if (options.splits && *options.splits == 1)
        refuse("splits: it is 1; 2 or more are accepted here: one piece is the whole, which flash_decode gives");
    DecodeArguments arguments = described(Kernel::chosen, q, k, v, options, 2).arguments;
    const AttentionResult parts = allocate_parts(q, arguments);
    launch_first(q, options, arguments);
    check_written("flash_decode_parts", parts);
    return parts;
}

int flash_decode_splits(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const DecodeOptions& options) {
    return described(Kernel::chosen, q, k, v, options).arguments.splits;
}

GlobalBytes flash_decode_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const DecodeOptions& options) {
    return bytes_of(Kernel::chosen, q, k, v, options);
}

GlobalBytes flash_decode_plain_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const DecodeOptions& options) {
    return bytes_of(Kernel::plain, q, k, v, options);
}

GlobalBytes flash_decode_pipelined_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                         const DecodeOptions& options) {
    return bytes_of(Kernel::pipelined, q, k, v, options);
}

AttentionResult merge_partials(const torch::Tensor& out_parts, const torch::Tensor& lse_parts) {
    check_tensor("out_parts", out_parts, 5);
    check_tensor("lse_parts", lse_parts, 4);
    for (const auto& [name, tensor] : {std::pair<const char*, const torch::Tensor&>{"out_parts", out_parts},
                                       std::pair<const char*, const torch::Tensor&>{"lse_parts", lse_parts}})
        if (tensor.scalar_type() != torch::kFloat32)
            refuse(name, ": the dtype is ", tensor.scalar_type(), "; float32 is accepted, convert with .to(…)");
    if (lse_parts.device() != out_parts.device())
        refuse("lse_parts: the device is ", lse_parts.device(), ", but out_parts' is ", out_parts.device(),
               "; they must be on one device");
    if (lse_parts.sizes() != out_parts.sizes().slice(0, 4))
        refuse("lse_parts: the shape is ", shape_of(lse_parts), ", but out_parts' is ", shape_of(out_parts),
               "; it must be the same without the last dimension");
    const int64_t parts = out_parts.size(0), head_dim = out_parts.size(4);
    if (parts > kMaxLength) refuse("out_parts: it has ", parts, " parts; at most ", kMaxLength, " are accepted");
    if (head_dim > kMaxHeadDim)
        refuse("out_parts: the head dimension is ", head_dim, "; 1 to ", kMaxHeadDim, " are accepted");
    check_rows("out_parts", out_parts.size(1) * out_parts.size(2) * out_parts.size(3));

    AttentionResult result{.out = allocate(out_parts.sizes().slice(1), out_parts.options()),
                           .lse = allocate(lse_parts.sizes().slice(1), lse_parts.options())};
    const torch::Tensor out_rows = out_parts.contiguous().view({parts, -1, head_dim}),
                        lse_rows = lse_parts.contiguous().view({parts, -1});
    run_on(out_parts.device(), cpu::launch_decode_combine, cuda::launch_decode_combine,
           CombineArguments{.out_parts = tensor_argument("O_part", out_rows),
                            .lse_parts = tensor_argument("LSE_part", lse_rows),
                            .out = tensor_argument("O", result.out.view({-1, head_dim})),
                            .lse = tensor_argument("LSE", result.lse.view({-1}))});
    check_written("merge_partials", result);
    return result;
}

namespace {

/// An entry as the operator of that name takes its arguments.
template <auto entry>
OutAndLse decode_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const c10::optional<torch::Tensor>& kv_lengths, c10::optional<int64_t> splits,
                          const std::string& mask, c10::optional<double> scale) {
    const AttentionResult r = entry(q, k, v,
                                    {.attention = {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)},
                                     .kv_lengths = from_schema(kv_lengths),
                                     .splits = from_schema(splits)});
    return {r.out, r.lse};
}

OutAndLse decode_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&,
                        const c10::optional<torch::Tensor>&, c10::optional<int64_t>, const std::string& mask,
                        c10::optional<double>) {
    mask_named(mask, kMasks);
    return shapes_for(q);
}

OutAndLse parts_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&,
                       const c10::optional<torch::Tensor>&, c10::optional<int64_t> splits, const std::string& mask,
                       c10::optional<double>) {
    check_rank("q", q, 4);
    mask_named(mask, kMasks);
    if (!splits)
        refuse("splits: it is None, and the planned number depends on the device and on kv_lengths, which a tensor ",
               "without values cannot tell; with torch.compile or on the meta device pass a number");
    std::vector<c10::SymInt> sizes = q.sym_sizes().vec();
    sizes.insert(sizes.begin(), c10::SymInt(*splits));
    return {shaped_like(q, sizes, torch::kFloat32),
            shaped_like(q, c10::SymIntArrayRef(sizes).slice(0, 4), torch::kFloat32)};
}

OutAndLse merge_operator(const torch::Tensor& out_parts, const torch::Tensor& lse_parts) {
    const AttentionResult r = merge_partials(out_parts, lse_parts);
    return {r.out, r.lse};
}

OutAndLse merge_shapes(const torch::Tensor& out_parts, const torch::Tensor& lse_parts) {
    check_rank("out_parts", out_parts, 5);
    check_rank("lse_parts", lse_parts, 4);
    return {shaped_like(out_parts, out_parts.sym_sizes().slice(1), torch::kFloat32),
            shaped_like(lse_parts, lse_parts.sym_sizes().slice(1), torch::kFloat32)};
}

constexpr int64_t kFewQueries = 16;  // so many rows of q a block takes at once

const RegisterRung registered(ForwardRung{
    .name = "flash_decode",
    .rank = Rank::few_queries,
    .reason = "the queries are few, so pieces of the keys must fill the device",
    .objection = [](const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&,
                    const AttentionOptions& options) -> std::string {
        if (q.size(2) > kFewQueries)
            return "there are " + std::to_string(q.size(2)) + " queries, and it is for up to " +
                   std::to_string(kFewQueries);
        return options.mask == Mask::causal_top_left ? "it knows no causal_top_left" : "";
    },
    .run = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
              const AttentionOptions& options) { return flash_decode(q, k, v, {.attention = options}); }});

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    const std::string arguments =
        "(Tensor q, Tensor k, Tensor v, *, Tensor? kv_lengths=None, int? splits=None, str mask=\"none\", "
        "float? scale=None)";
    register_operator(library, "flash_decode", arguments + " -> (Tensor out, Tensor lse)",
                      decode_operator<flash_decode>, decode_shapes);
    register_operator(library, "flash_decode_parts", arguments + " -> (Tensor out_parts, Tensor lse_parts)",
                      decode_operator<flash_decode_parts>, parts_shapes);
    register_operator(library, "merge_partials", "(Tensor out_parts, Tensor lse_parts) -> (Tensor out, Tensor lse)",
                      merge_operator, merge_shapes);
}

}  // namespace ladder
