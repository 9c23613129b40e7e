#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// What the numbers look like. Each family exists because it catches mistakes that plain random numbers let through.
enum class Family {
    normal,                  ///< q, k, v standard normal: scores of standard deviation 1 at the default scale
    scores_near_minus_1000,  ///< exposes a running max seeded with 0 or a finite sentinel: every exp underflows
    one_huge_logit,          ///< one key scores +500 for even rows and -500 for odd ones: exp without the max overflows
    equal_scores,            ///< every key the same: the result is the mean of V, and each key weighs 1 / Sk
    index_ramp,              ///< row i looks up key (5 i + 3 h + b) mod Sk, and V counts its indices: swaps show
    offset_values,           ///< |V| near 100: exposes weights that do not sum to 1
    tiny,                    ///< q, k near 1e-2 and V near 1e-3: errors hide from absolute tolerances
    rising_scores,           ///< the max grows with almost every key: exposes a missing rescale
    falling_scores,          ///< the first keys dominate: exposes a max that forgets
};

/// How a tensor lies in memory. The last dimension always has stride 1; memory that is not the tensor's is NaN.
///
/// In the last three, rows must not be read 16 bytes at a time, whatever D is: each has another reason.
enum class Layout {
    contiguous,      ///< [B, H, S, D]
    bshd,            ///< transposed view of [B, S, H, D], as projections produce it
    packed_qkv,      ///< the middle third of [B, S, 3, H, D], transposed: one projection for all three
    sliced_offset,   ///< a window into a larger tensor, at an offset in batch, head and sequence
    expanded_heads,  ///< all heads are one head, with stride 0
    expanded_batch,  ///< all sequences of the batch are one, with stride 0
    padded_rows,     ///< row stride > D, which leaves every other row unaligned
    padded_heads,    ///< only heads and sequences begin unaligned: a few elements lie between them
    shifted,         ///< only the first element is unaligned: strides are those of contiguous
};

/// Every layout, in the order above.
inline constexpr std::array kLayouts{Layout::contiguous,    Layout::bshd,           Layout::packed_qkv,
                                     Layout::sliced_offset, Layout::expanded_heads, Layout::expanded_batch,
                                     Layout::padded_rows,   Layout::padded_heads,   Layout::shifted};

/// A layout for each tensor of a case: who mistakes one tensor's strides for another's shall not get away with it.
struct Layouts {
    /// Of the tensor of that name.
    Layout q = Layout::contiguous;
    Layout k = Layout::contiguous;
    Layout v = Layout::contiguous;

    /// Equal for each tensor.
    friend bool operator==(const Layouts&, const Layouts&) = default;
};

/// Whether rows in this layout begin at multiples of 16 bytes, given a D that is a multiple of 16 bytes.
constexpr bool aligns_rows(Layout layout) { return layout < Layout::padded_rows; }

/// One attention problem, fully determined by these fields.
struct AttentionCase {
    std::string name = {};  ///< Letters, digits and underscores, fit for a GoogleTest parameter.

    /// B, Hq, Hkv, Sq, Sk and D.
    int64_t batch = 1;
    int64_t query_heads = 1;
    int64_t kv_heads = 1;
    int64_t query_length = 1;
    int64_t key_length = 1;
    int64_t head_dim = 64;

    /// What the tensors hold and how they lie in memory, and what the call asks for.
    torch::ScalarType dtype = torch::kFloat32;
    Family family = Family::normal;
    Layouts layouts = {};
    AttentionOptions options = {};
    uint64_t seed = 0;
};

/// The enumerator as it is written in C++.
std::string_view name_of(Family family);
std::string_view name_of(Layout layout);

/// Multiply-adds in one of the two matrix products, B * Hq * Sq * Sk * D: what a case costs on the CPU machine.
int64_t work(const AttentionCase& problem);

/// A name made of every field that differs from the plainest case, e.g. "f16_h4_kv2_q33_k65_d64_tiny_v_bshd".
std::string describe(const AttentionCase& problem);

/// What describe() says, for GoogleTest.
std::ostream& operator<<(std::ostream& stream, const AttentionCase& problem);

/// The tensors of a case.
struct AttentionInputs {
    torch::Tensor q;  ///< [B, Hq, Sq, D]
    torch::Tensor k;  ///< [B, Hkv, Sk, D]
    torch::Tensor v;  ///< [B, Hkv, Sk, D]
};

/// Builds the tensors of a case. The same case gives the same numbers on every device.
AttentionInputs make_inputs(const AttentionCase& problem, torch::Device device);

/// What softmax meets inside attention: the scaled scores x [Sq, Sk] of a case with one batch and one head, in the
/// case's dtype and the layout of its q. The same case gives the same numbers on every device.
torch::Tensor make_scores(const AttentionCase& problem, torch::Device device);

/// The same numbers in another memory layout, on the same device. `expanded_heads` keeps only head 0, `expanded_batch`
/// only sequence 0.
torch::Tensor with_layout(const torch::Tensor& tensor, Layout layout);

}  // namespace ladder::reference
