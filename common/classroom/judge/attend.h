#pragma once

#include <optional>

#include "common/attention/arguments.h"
#include "common/torch/torch.h"

namespace ladder::classroom {

/// Attention as exercises ask for it: what the phases compute, and what the exercises add.
struct Form {
    double scale = 1;                    ///< factor on Q K^T
    Mask mask = Mask::none;              ///< which keys a query sees
    int64_t further = 0;                 ///< keys beyond those that a query sees all the same: of wrong masks only
    std::optional<int64_t> window = {};  ///< of those, only the last so many
    std::optional<double> softcap = {};  ///< scores s become c tanh(s / c)
    std::optional<torch::Tensor> slopes = {};  ///< [Hq]; ALiBi: query i adds slope (j - (i + Sk - Sq)) to key j's score
    std::optional<torch::Tensor> lengths = {};              ///< [B]; keys from there on do not exist
    std::optional<torch::ScalarType> scores_kept_as = {};   ///< they are rounded to this type before the softmax
    std::optional<torch::ScalarType> weights_kept_as = {};  ///< they are rounded to this type before they meet V
};

/// Results in the precision that they were computed in.
struct Attended {
    torch::Tensor out;  ///< [B, Hq, Sq, D]
    torch::Tensor lse;  ///< [B, Hq, Sq]
};

/// [B or 1, 1, Sq, Sk]: whether a query sees a key.
torch::Tensor sight(int64_t queries, int64_t keys, const Form& form);

/// The scores [B, Hq, Sq, Sk] of a problem in `precision`, -inf where a query does not see a key.
torch::Tensor scores_of(const torch::Tensor& q, const torch::Tensor& k, const Form& form, torch::ScalarType precision);

/// Softmax of the scores times V, in `precision`: in float64 what a kernel is held against, in float32 what may be
/// asked of it. q [B, Hq, Sq, D], k and v [B, Hkv, Sk, D]. A row that sees no key gives 0, and -inf as LSE.
Attended attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, const Form& form,
                torch::ScalarType precision);

}  // namespace ladder::classroom
