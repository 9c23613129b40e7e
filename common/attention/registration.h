#pragma once

// What a phase needs to register its entries with PyTorch: `TORCH_LIBRARY_FRAGMENT(flash_ladder, library)` makes
// `torch.ops.flash_ladder.<entry>` of them once libflash_ladder.so is loaded.

#include <torch/library.h>

#include <optional>

namespace ladder {

/// Operator schemas speak c10::optional, which became std::optional in PyTorch 2.
template <class T>
std::optional<T> from_schema(const c10::optional<T>& value) {
    return value ? std::optional<T>(*value) : std::nullopt;
}

}  // namespace ladder
