#include "phase9_ring/sent_bytes.h"

namespace ladder {
namespace {

/// Numbers in K and V together.
std::int64_t key_elements(const WholeSizes& s) { return 2 * s.batch * s.kv_heads * s.key_length * s.head_dim; }

}  // namespace

SentBytes ring_bytes(const WholeSizes& s, int ranks) {
    const std::int64_t elements = key_elements(s), steps = ranks - 1;
    return {.forward = steps * elements * s.element_bytes,
            .backward = steps * elements * (s.element_bytes + std::int64_t(sizeof(float))) +
                        (ranks > 1 ? elements * s.element_bytes : 0)};
}

SentBytes gathered_bytes(const WholeSizes& s, int ranks) {
    const std::int64_t elements = key_elements(s), others = ranks - 1;
    return {.forward = others * elements * s.element_bytes,
            .backward = others * elements * (s.element_bytes + std::int64_t(sizeof(float)))};
}

SentBytes ulysses_bytes(const WholeSizes& s, int ranks) {
    const std::int64_t rows = s.batch * s.query_heads * s.query_length;
    const std::int64_t tensors = (key_elements(s) + 2 * rows * s.head_dim) * s.element_bytes;
    return {.forward = (tensors + rows * std::int64_t(sizeof(float))) * (ranks - 1) / ranks,
            .backward = tensors * (ranks - 1) / ranks};
}

}  // namespace ladder
