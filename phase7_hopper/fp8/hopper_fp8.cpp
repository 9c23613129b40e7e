#include "phase7_hopper/fp8/hopper_fp8.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "common/attention/check.h"
#include "common/attention/forward.h"
#include "common/attention/registration.h"
#include "phase7_hopper/check_hopper.h"
#include "phase7_hopper/fp8/fp8_arguments.h"

namespace ladder {

// The kernels, compiled once per machine.
namespace cpu {
void launch_fp8_quantization(const QuantizationArguments&);
void launch_hopper_fp8(const Fp8Arguments&);
std::size_t hopper_fp8_shared_bytes(const Fp8Arguments&);
GlobalBytes hopper_fp8_kernel_bytes(const Fp8Arguments&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_fp8_quantization(const QuantizationArguments&);
[[gnu::weak]] void launch_hopper_fp8(const Fp8Arguments&);
}  // namespace cuda

namespace {

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};
constexpr const char* kName = "hopper_fp8_forward";
constexpr int kQueryRows = 64, kKeyRows = 128;  // that share an exponent

// With the exponents of a row of Q and of one of K from here on, the scale of their scores is a normal number.
constexpr int kSmallestScoreExponent = -60;
constexpr int kSmallestValueExponent = -100;

/// Columns of the codes: what the kernels are compiled for.
std::int64_t columns_for(std::int64_t head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256; }

simt::ElementType element_of(ValueCodes codes) {
    return codes == ValueCodes::e4m3 ? simt::ElementType::e4m3 : simt::ElementType::e5m2;
}

/// tensor_argument() for types that tensors of an old PyTorch do not have.
simt::TensorArgument argument(const char* name, const torch::Tensor& tensor, simt::ElementType type) {
    simt::TensorArgument a{.name = name, .data = tensor.data_ptr(), .type = type, .rank = int(tensor.dim())};
    for (int i = 0; i < a.rank; ++i) {
        a.extents[i] = tensor.size(i);
        a.strides[i] = tensor.stride(i);
    }
    return a;
}

void check_table(const char* name, const torch::Tensor& table, const torch::Tensor& q, std::int64_t positions) {
    const std::string is = kName + (": " + std::string(name)) + " is ";
    if (!table.defined() || table.dim() != 2)
        throw std::invalid_argument(is + (table.defined() ? shape_of(table) : "undefined") +
                                    "; a table [positions, D / 2] is expected");
    if (table.scalar_type() != torch::kFloat32 || table.device() != q.device() || table.stride(1) != 1)
        throw std::invalid_argument(is + toString(table.scalar_type()) + " on " + table.device().str() +
                                    "; float32 on q's device is expected, its last dimension contiguous");
    if (table.size(0) < positions || table.size(1) != q.size(3) / 2)
        throw std::invalid_argument(is + shape_of(table) + "; at least " + std::to_string(positions) +
                                    " positions are needed, with " + std::to_string(q.size(3) / 2) + " angles each");
}

void check_rotary(const Rotary& rotary, const torch::Tensor& q, const torch::Tensor& k) {
    if (q.size(3) % 2 != 0)
        throw std::invalid_argument(std::string(kName) + ": q has " + std::to_string(q.size(3)) +
                                    " columns; a rotary embedding turns pairs, so an even number is expected");
    if (rotary.first_query < 0)
        throw std::invalid_argument(std::string(kName) + ": first_query is " + std::to_string(rotary.first_query) +
                                    "; a position is 0 or more");
    const std::int64_t positions = std::max(rotary.first_query + q.size(2), k.size(2));
    check_table("cosines", rotary.cosines, q, positions);
    check_table("sines", rotary.sines, q, positions);
}

struct Quantized {
    torch::Tensor codes, exponents;
};

/// What `how` leaves to each tensor.
struct Recipe {
    const char* name;
    const char* exponents_name;
    simt::ElementType type;
    int block_rows, smallest_exponent;
    float factor = 1.0f;
    bool rotates = false;
    const Rotary* rotary = nullptr;
    std::int64_t first_position = 0;
};

Quantized quantize(const torch::Tensor& x, const Recipe& recipe) {
    const std::int64_t blocks = (x.size(2) + recipe.block_rows - 1) / recipe.block_rows;
    const Quantized result{
        allocate({x.size(0), x.size(1), x.size(2), columns_for(x.size(3))}, x.options().dtype(torch::kUInt8)),
        allocate({x.size(0), x.size(1), blocks}, x.options().dtype(torch::kInt32))};
    QuantizationArguments arguments{
        .x = tensor_argument(recipe.name, x),
        .codes = argument("codes", result.codes, recipe.type),
        .exponents = argument(recipe.exponents_name, result.exponents, simt::ElementType::i32),
        .block_rows = recipe.block_rows,
        .smallest_exponent = recipe.smallest_exponent,
        .factor = recipe.factor,
        .rotates = recipe.rotates,
        .cosines = {},
        .sines = {},
        .first_position = int(recipe.first_position)};
    if (recipe.rotary) {
        arguments.cosines = tensor_argument("cosines", recipe.rotary->cosines);
        arguments.sines = tensor_argument("sines", recipe.rotary->sines);
    }
    run_on(x.device(), cpu::launch_fp8_quantization, cuda::launch_fp8_quantization, arguments);
    check_written(kName, "codes", result.codes);
    check_written(kName, recipe.exponents_name, result.exponents);
    return result;
}

Fp8Arguments arguments_of(const Fp8Operands& o, Mask mask) {
    const simt::Device device = device_limits(o.q.device());
    Fp8Arguments a{};
    a.q = argument("Q", o.q, simt::ElementType::e4m3);
    a.k = argument("K", o.k, simt::ElementType::e4m3);
    a.v = argument("V", o.v, element_of(o.values));
    a.q_exponents = argument("Q exponents", o.q_exponents, simt::ElementType::i32);
    a.k_exponents = argument("K exponents", o.k_exponents, simt::ElementType::i32);
    a.v_exponents = argument("V exponents", o.v_exponents, simt::ElementType::i32);
    a.scale = o.scale == 0.0 ? 1.0f : float(std::abs(o.scale));  // without a scale the codes of Q are 0
    a.mask = mask;
    a.multiprocessors = device.multiprocessors;
    a.shared_bytes_per_block = device.shared_bytes_per_block_optin;
    a.shared_bytes_per_multiprocessor = device.shared_bytes_per_multiprocessor;
    return a;
}

}  // namespace

Fp8Operands quantize_to_8_bits(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                               const AttentionOptions& options, const Fp8Options& how) {
    const AttentionArguments given = checked_arguments(q, k, v, options, kMasks);
    Fp8Arguments shape{};
    static_cast<AttentionArguments&>(shape) = given;
    check_hopper(kName, q, cpu::hopper_fp8_shared_bytes(shape));
    if (how.rotary) check_rotary(*how.rotary, q, k);
    const Rotary* const rotary = how.rotary ? &*how.rotary : nullptr;
    const float sign = given.scale > 0.0f ? 1.0f : given.scale < 0.0f ? -1.0f : 0.0f;
    const Quantized Q = quantize(q, {.name = "Q",
                                     .exponents_name = "Q exponents",
                                     .type = simt::ElementType::e4m3,
                                     .block_rows = kQueryRows,
                                     .smallest_exponent = kSmallestScoreExponent,
                                     .factor = sign,
                                     .rotates = how.rotated,
                                     .rotary = rotary,
                                     .first_position = rotary ? rotary->first_query : 0});
    const Quantized K = quantize(k, {.name = "K",
                                     .exponents_name = "K exponents",
                                     .type = simt::ElementType::e4m3,
                                     .block_rows = kKeyRows,
                                     .smallest_exponent = kSmallestScoreExponent,
                                     .rotates = how.rotated,
                                     .rotary = rotary});
    const Quantized V = quantize(v, {.name = "V",
                                     .exponents_name = "V exponents",
                                     .type = element_of(how.values),
                                     .block_rows = kKeyRows,
                                     .smallest_exponent = kSmallestValueExponent});
    return {.q = Q.codes,
            .k = K.codes,
            .v = V.codes,
            .q_exponents = Q.exponents,
            .k_exponents = K.exponents,
            .v_exponents = V.exponents,
            .head_dim = q.size(3),
            .dtype = q.scalar_type(),
            .values = how.values,
            .scale = given.scale};
}

AttentionResult hopper_fp8_attention(const Fp8Operands& o, Mask mask) {
    const auto options = torch::TensorOptions().device(o.q.device());
    const AttentionResult result{allocate({o.q.size(0), o.q.size(1), o.q.size(2), o.head_dim}, options.dtype(o.dtype)),
                                 allocate({o.q.size(0), o.q.size(1), o.q.size(2)}, options.dtype(torch::kFloat32))};
    Fp8Arguments arguments = arguments_of(o, mask);
    check_hopper("hopper_fp8_attention", result.out, cpu::hopper_fp8_shared_bytes(arguments));
    arguments.out = tensor_argument("O", result.out);
    arguments.lse = tensor_argument("LSE", result.lse);
    run_on(o.q.device(), cpu::launch_hopper_fp8, cuda::launch_hopper_fp8, arguments);
    check_written("hopper_fp8_attention", result);
    return result;
}

AttentionResult hopper_fp8_forward(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                   const AttentionOptions& options, const Fp8Options& how) {
    return hopper_fp8_attention(quantize_to_8_bits(q, k, v, options, how), options.mask);
}

GlobalBytes hopper_fp8_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options) {
    Fp8Arguments a{};
    static_cast<AttentionArguments&>(a) = checked_arguments(q, k, v, options, kMasks);
    return cpu::hopper_fp8_kernel_bytes(a);
}

GlobalBytes hopper_fp8_forward_bytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                     const AttentionOptions& options, const Fp8Options& how) {
    GlobalBytes bytes = hopper_fp8_bytes(q, k, v, options);
    const auto add = [&](const torch::Tensor& x, int block_rows, bool turned) {
        const std::int64_t rows = x.numel() / x.size(3), heads = x.size(0) * x.size(1);
        const std::int64_t blocks = heads * ((x.size(2) + block_rows - 1) / block_rows);
        const std::int64_t angles = turned ? x.numel() / 2 : 0;  // a cosine and a sine for each pair of columns
        bytes.read += std::uint64_t(x.numel() * x.element_size() + angles * 2 * std::int64_t(sizeof(float)));
        bytes.written += std::uint64_t(rows * columns_for(x.size(3)) + blocks * std::int64_t(sizeof(int)));
    };
    add(q, kQueryRows, how.rotary.has_value());
    add(k, kKeyRows, how.rotary.has_value());
    add(v, kKeyRows, false);
    return bytes;
}

namespace {

ValueCodes values_named(const std::string& name) {
    if (name == "e4m3") return ValueCodes::e4m3;
    if (name == "e5m2") return ValueCodes::e5m2;
    throw std::invalid_argument(std::string(kName) + ": values is \"" + name + "\"; accepts \"e4m3\" and \"e5m2\"");
}

OutAndLse fp8_operator(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const std::string& mask,
                       c10::optional<double> scale, bool rotated, const std::string& values,
                       const c10::optional<torch::Tensor>& cosines, const c10::optional<torch::Tensor>& sines,
                       std::int64_t first_query) {
    Fp8Options how{.rotated = rotated, .values = values_named(values), .rotary = {}};
    if (cosines || sines)
        how.rotary = Rotary{cosines.value_or(torch::Tensor()), sines.value_or(torch::Tensor()), first_query};
    const AttentionResult result =
        hopper_fp8_forward(q, k, v, {.scale = from_schema(scale), .mask = mask_named(mask, kMasks)}, how);
    return {result.out, result.lse};
}

OutAndLse fp8_shapes(const torch::Tensor& q, const torch::Tensor&, const torch::Tensor&, const std::string& mask,
                     c10::optional<double>, bool, const std::string& values, const c10::optional<torch::Tensor>&,
                     const c10::optional<torch::Tensor>&, std::int64_t) {
    mask_named(mask, kMasks);
    values_named(values);
    return shapes_for(q);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(flash_ladder, library) {
    register_operator(library, "hopper_fp8_forward",
                      "(Tensor q, Tensor k, Tensor v, *, str mask=\"none\", float? scale=None, bool rotated=True, "
                      "str values=\"e4m3\", Tensor? cosines=None, Tensor? sines=None, int first_query=0) -> "
                      "(Tensor out, Tensor lse)",
                      fp8_operator, fp8_shapes);
}

}  // namespace ladder
