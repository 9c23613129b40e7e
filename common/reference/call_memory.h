#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/reference/inputs.h"
#include "common/torch/torch.h"

namespace ladder::reference {

/// Remembers the memory of some tensors, gaps between rows included, to tell later which of them somebody wrote to.
class MemoryWatch {
  public:
    /// Takes a copy of each tensor's memory, under the name that written() gives.
    explicit MemoryWatch(std::vector<std::pair<std::string, torch::Tensor>> tensors);

    /// The names of the tensors whose memory is no longer what it was.
    std::vector<std::string> written() const;

  private:
    struct Watched {
        std::string name;
        torch::Tensor tensor;
        torch::Tensor before;
    };
    std::vector<Watched> watched_;
};

/// One dtype, and the same bits in every element: NaN equals itself, and 0 differs from -0.
bool same_bits(const torch::Tensor& a, const torch::Tensor& b);

/// Sets keys and values at and beyond each sequence's length to NaN: an entry has no business reading them.
///
/// @param kv_lengths  [B], integers, on any device
void poison_past_lengths(AttentionInputs& inputs, const torch::Tensor& kv_lengths);

/// What an exception says, without the backtrace that libtorch appends.
std::string message_of(const std::exception& error);

}  // namespace ladder::reference
