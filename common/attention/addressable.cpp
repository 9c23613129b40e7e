#include "common/attention/addressable.h"

#include <cstdint>

#include "common/attention/machine.h"

namespace ladder {
namespace {

constexpr std::int64_t kPiece = 8;  // elements: 16 bytes, of which the accelerator's addresses are multiples

bool addressable(const torch::Tensor& x) {
    if (!tensor_argument("", x).rows_aligned_to_16_bytes()) return false;
    for (std::int64_t i = 0; i + 1 < x.dim(); ++i)
        if (x.size(i) > 1 && x.stride(i) <= 0) return false;
    return true;
}

}  // namespace

torch::Tensor made_addressable(const torch::Tensor& x) {
    if (addressable(x)) return x;
    const std::int64_t surplus = (kPiece - x.size(3) % kPiece) % kPiece;
    return surplus == 0 ? x.clone(at::MemoryFormat::Contiguous) : at::constant_pad_nd(x, {0, surplus}, 0);
}

}  // namespace ladder
