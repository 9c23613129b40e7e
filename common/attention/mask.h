#pragma once

#include <cstdint>

namespace ladder {

/// Which keys a query may see. With Sq queries and Sk keys, query i sees key j when
///
///   none                 always
///   causal_bottom_right  j <= i + Sk - Sq    the last query sees the last key (FlashAttention >= 2.1)
///   causal_top_left      j <= i              the first query sees the first key (PyTorch's `is_causal`)
///
/// The two causal alignments agree exactly when Sq == Sk.
enum class Mask { none, causal_bottom_right, causal_top_left };

}  // namespace ladder
