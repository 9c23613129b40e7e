#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/attention/options.h"
#include "common/simt/device/device.h"
#include "common/simt/report/machine_error.h"
#include "common/simt/views/tensor_argument.h"
#include "common/torch/torch.h"

namespace ladder {

/// What ./ladder overflow asks for: a block's query rows and their width, on a device.
struct OverflowRequest {
    torch::Device device = torch::kCPU;
    simt::ElementType type = simt::ElementType::f16;
    std::int64_t head_dim = 128;
    std::int64_t block_rows = 64;
};

/// How far one scheme gets that keeps whole rows in shared memory.
struct OverflowTable {
    /// N keys against the bytes that a block needs.
    struct Row {
        std::int64_t key_length = 0;
        std::vector<std::size_t> bytes = {};  ///< for each of `parts`
        bool fits_without_asking = false;
        bool fits = false;  ///< with opt-in
    };
    /// The longest problem that fits, which ran.
    struct Run {
        torch::Tensor q, k, v;
        AttentionResult result = {};
        std::size_t shared_bytes_per_block = 0;
    };

    std::string name = {};                ///< "Scheme A"
    std::string plan = {};                ///< what a block keeps, in a few words
    std::vector<std::string> parts = {};  ///< "Q", "K", …
    std::vector<Row> rows = {};
    std::int64_t largest_key_length = 0;  ///< 0: not a single key fits
    std::optional<Run> run = {};
    simt::LaunchError refusal;  ///< what the device said to one key more
};

/// What a phase has to show of that.
struct OverflowDemo {
    simt::Device limits = {};
    std::vector<OverflowTable> tables = {};
    std::string lesson = {};  ///< what follows from it, a few sentences
};

}  // namespace ladder
