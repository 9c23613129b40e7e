#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/reference/gradient_cases.h"
#include "common/reference/inputs.h"
#include "common/torch/torch.h"
#include "phase8_backward/backward.h"

namespace ladder::backward_checks {

/// What every backward entry promises, one check for each promise; the tests of each entry call them. All run on
/// test_device(), and try both ways to gather dQ.

/// An entry with the form of plain_backward(), and its traffic formula.
struct Entry {
    std::function<AttentionGradients(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                                     const AttentionOptions&, const BackwardOptions&,
                                     const std::optional<torch::Tensor>& dlse)>
        call;  ///< the entry
    std::function<GlobalBytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                              const AttentionOptions&, const BackwardOptions&, bool has_dlse)>
        bytes;                              ///< its formula
    std::vector<torch::ScalarType> dtypes;  ///< that it takes; checks that make their own inputs use all of them
    std::vector<int64_t> head_dims;         ///< one for each size that its kernels are compiled for
};

inline constexpr Mask kMasks[] = {Mask::none, Mask::causal_bottom_right,
                                  Mask::causal_top_left};                           ///< all that there are
inline constexpr DqGather kGathers[] = {DqGather::second_pass, DqGather::atomics};  ///< likewise

/// The entry on what a case gives it.
AttentionGradients call(const Entry& entry, const reference::BackwardInputs& given, DqGather gather,
                        bool with_dlse = true);

/// A case, gathered both ways, keeps to the bound for gradients, and the entry leaves its inputs alone.
void matches_oracle(const Entry& entry, const reference::AttentionCase& problem, bool with_dlse);

/// Several tiles of keys and queries at each head dimension, with a group of heads: the standard cases are short where
/// D is large. Under one mask for each, and with LADDER_TEST_ALL (`./ladder test --all`) under each mask.
void many_tiles_of_every_size_match_oracle(const Entry& entry, int64_t query_length, int64_t key_length);

/// FlashAttention's test_flash_attn_bwd_transpose: dO comes with the sequence outside the batch, and of every other
/// sequence only, while all else is contiguous.
void gradients_with_strides_of_their_own_match_oracle(const Entry& entry);

/// Two calls with a second pass give the same bits.
void repeats_bitwise(const Entry& entry, const std::vector<reference::AttentionCase>& cases);

/// Rows that see no key get a dq of 0, the others do not.
void rows_that_see_nothing_get_zero(const Entry& entry);

/// dO_i and dLSE_i of one row alone: the gradients of all rows are the sum of those of each. (Whoever mixes rows up, in
/// D or LSE, shows.)
void one_row_alone_reaches_its_own_dq_only(const Entry& entry);

/// What lies on the other side of the mask may hold anything: gradients keep their bits.
void hidden_rows_reach_nobody(const Entry& entry);

/// A key of -inf, which positive queries do not weigh, makes dQ_i NaN for those alone that see it. To dK and dV it is
/// as one that is merely far away: also for rows of a tile in which there are no queries.
void keys_of_no_weight_reach_only_who_sees_them(const Entry& entry);

/// FlashAttention's test_flash_attn_bwd_overflow: scores so large that exp without LSE overflows.
void large_scores_do_not_overflow(const Entry& entry);

/// The kernels read and write as many bytes of global memory as the formula says.
void moves_what_the_formula_says(const Entry& entry, const std::vector<reference::AttentionCase>& cases);

/// Bad input is refused in words, before anything is launched.
void refuses_bad_input(const Entry& entry);

/// Some of the standard cases and of those with a mask.
std::vector<reference::AttentionCase> some_cases();

}  // namespace ladder::backward_checks
