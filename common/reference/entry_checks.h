#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "common/attention/arguments.h"
#include "common/reference/checks.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// What every attention entry promises beyond the right answer, one check for each promise. The phases' tests call
/// them:
///
///     TEST(Mine, IgnoresBatchNeighbours) { EXPECT_TRUE(ignores_batch_neighbours(my_forward)); }
///
/// All run on test_device(), and a failure names each case that failed. A check that is given no cases fails. What an
/// entry throws is a failure of the case at hand, unless the check asks for it.

/// The form of a traffic formula, such as my_forward_bytes.
using AttentionBytes = std::function<GlobalBytes(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                                 const AttentionOptions& options)>;

/// What a check must know about an entry. The defaults describe one that takes no mask.
struct EntryTraits {
    /// The masks that the entry takes; each check runs under every one.
    std::vector<Mask> masks = {Mask::none};

    /// The dtypes of the inputs that a check makes, of those that the entry takes.
    std::vector<torch::ScalarType> dtypes = {torch::kFloat32};

    /// Numbers of keys to try where a check makes its own inputs, at head dims up to 24 in float32 (or those below) and
    /// up to 64 in float16. Some should fit one tile of keys, others fill several.
    std::vector<int64_t> key_lengths = {40, 75, 140};

    /// Head dims of the inputs with infinities and NaN.
    std::vector<int64_t> head_dims = {16};

    Lse lse = Lse::present;  ///< Whether the entry gives a log-sum-exp.
};

/// Every call of bad_inputs() is refused under every mask, with the words that the table asks for. So are the masks
/// that are not among the entry's, and a mask that does not exist; that message names the mask, and those that are
/// accepted. Nothing is launched before.
::testing::AssertionResult refuses_bad_input(const AttentionEntry& entry, const EntryTraits& traits = {});

/// The same of an entry's traffic formula: it has no answer to a call that the entry refuses.
::testing::AssertionResult refuses_bad_input(const AttentionBytes& bytes, const EntryTraits& traits = {});

/// After each call of bad_inputs() that the entry refused, `fine` still matches the reference.
::testing::AssertionResult works_after_an_error(const AttentionEntry& entry, const AttentionCase& fine,
                                                Lse lse = Lse::present);

/// Two calls on the same tensors give the same bits, in `out` and in `lse`.
::testing::AssertionResult repeats_bitwise(const AttentionEntry& entry, const std::vector<AttentionCase>& cases,
                                           Lse lse = Lse::present);

/// One element of q, k or v is inf, -inf or NaN: each row is what the reference makes of it (see attention_oracle). In
/// k and v this is tried near the first and in the last key; and, in the last, after a score so large that all other
/// weights vanish. Also, all keys of a head but the last are -inf, so that a row meets its first finite score late.
::testing::AssertionResult agrees_on_non_finite_input(const AttentionEntry& entry, const EntryTraits& traits = {});

/// A row whose scores are all -inf is NaN, as softmax has no answer there, with log-sum-exp -inf. The rows around it
/// are finite. (A row that sees no key is another matter: it has the same log-sum-exp, but is 0.)
::testing::AssertionResult row_of_negative_infinities_is_nan(const AttentionEntry& entry,
                                                             const EntryTraits& traits = {});

/// Each sequence of a batch has the bits, in `out` and in `lse`, that it has when it is the whole batch.
::testing::AssertionResult ignores_batch_neighbours(const AttentionEntry& entry, const EntryTraits& traits = {});

/// The sum over keys has no order: with keys and values permuted together, the result still matches the reference for
/// the order they had. Under a mask, only the keys that all rows see change places.
::testing::AssertionResult ignores_key_order(const AttentionEntry& entry, const EntryTraits& traits = {});

/// The kernels read and write exactly as many bytes of global memory as the formula says, which the tour prints where
/// nothing counts. The CPU machine counts them; on a GPU this check has nothing to hold the formula against, and
/// the test is reported as not run (see not_run_on_gpu).
::testing::AssertionResult moves_what_the_formula_says(const AttentionEntry& entry, const AttentionBytes& bytes,
                                                       const std::vector<AttentionCase>& cases);

}  // namespace ladder::reference
