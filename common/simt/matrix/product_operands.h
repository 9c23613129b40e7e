#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/simt/matrix/product_call.h"

namespace simt {
inline namespace cpu {

using ProductCalls = std::array<const ProductCall*, kWarpgroup>;

/// Who reads operands in shared memory: the tensor cores, set off by a warpgroup. For each warp, its own rows of A and
/// all of B: an agent each, and one number for the four together.
struct OperandReader {
    int warpgroup;
    int first_agent;  ///< that of the first warp
    int all_agents;   ///< see ThreadClocks::together
    std::uint32_t interval;
};

/// The operands of one product as matrices of float; kept from one to the next for their memory.
class ProductOperands {
  public:
    /// Reads them. With checks, those in shared memory must be written, known to all four warps and shown to agents;
    /// and the reader is remembered.
    void load(Block& block, const ProductCalls& calls, const OperandReader* reader);

    const float* a() const { return a_.data(); }  ///< [64, depth]
    const float* b() const { return b_.data(); }  ///< [depth, n]

  private:
    void load_registers(const ProductCalls& calls);
    void load_shared(Block& block, const PassedOperand& operand, const OperandShape& shape, bool is_a,
                     const OperandReader* reader, SourceSite site);

    std::vector<std::byte> bits_ = std::vector<std::byte>(kMostProductColumns * kProductBytes);
    std::vector<float> values_ = std::vector<float>(kMostProductColumns * kMostProductDepth);
    std::vector<float> a_ = std::vector<float>(kProductRows * kMostProductDepth);
    std::vector<float> b_ = std::vector<float>(kMostProductColumns * kMostProductDepth);
};

}  // namespace cpu
}  // namespace simt
