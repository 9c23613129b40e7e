#pragma once

// Which rung takes a problem. Every phase whose entry is a candidate for attention() registers it here, with what it
// objects to; nobody else need know the phases by name.

#include <optional>
#include <string>
#include <string_view>

#include "common/attention/gradients.h"
#include "common/attention/options.h"
#include "common/torch/torch.h"

namespace ladder {

/// The numbers that say which of several rungs to take: the highest of those that do not object. They follow the speeds
/// in docs/results.
enum class Rank {
    plain = 10,         ///< runs wherever something runs
    registers = 20,     ///< sums in registers, tiles in shared memory
    unmasked = 30,      ///< the same without the price of masks
    tensor_cores = 40,  ///< mma.sync
    hopper = 50,        ///< wgmma
    few_queries = 60,   ///< fills the device with pieces of the keys where queries do not
};

/// A forward entry that attention() may choose.
struct ForwardRung {
    std::string_view name;    ///< of the entry
    Rank rank;                ///< its place among those that do not object
    std::string_view reason;  ///< why it is the one where it is: "tensor cores multiply 16-bit tiles"

    /// Why it does not take this problem, on the device that holds it; empty where it does.
    std::string (*objection)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options);

    /// The entry.
    AttentionResult (*run)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const AttentionOptions& options);
};

/// A backward entry that attention() may choose.
struct BackwardRung {
    std::string_view name;    ///< of the entry
    Rank rank;                ///< its place among those that do not object
    std::string_view reason;  ///< why it is the one where it is

    /// As that of a ForwardRung.
    std::string (*objection)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             const AttentionOptions& options);

    /// The entry. `dlse` is absent where the loss does not look at the log-sum-exp.
    AttentionGradients (*run)(const torch::Tensor& dout, const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& out, const torch::Tensor& lse,
                              const AttentionOptions& options, const std::optional<torch::Tensor>& dlse);
};

/// Makes a rung known. A phase has one `const RegisterRung` for each, at namespace scope.
class RegisterRung {
  public:
    /// Before main() begins, in no particular order.
    explicit RegisterRung(const ForwardRung& rung);
    explicit RegisterRung(const BackwardRung& rung);
};

/// What check() throws, as an objection; empty where it throws nothing.
template <class Check>
std::string objection_of(const Check& check) {
    try {
        check();
        return {};
    } catch (const std::exception& refusal) {
        return refusal.what();
    }
}

/// The rung for a problem that check_attention() accepts. Throws std::runtime_error, with everybody's objections, where
/// this program has none that takes it.
const ForwardRung& forward_rung(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                const AttentionOptions& options);

/// The same for the backward pass.
const BackwardRung& backward_rung(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options);

/// Which rungs attention() takes for a problem, and why.
struct AttentionChoice {
    std::string forward;   ///< name of the forward entry
    std::string backward;  ///< name of the backward entry; empty in a program without one
    std::string why;       ///< the reason for each, and the objections of all that rank higher, a line each
};

/// Throws as check_attention() and forward_rung() do.
AttentionChoice attention_choice(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options = {});

}  // namespace ladder
