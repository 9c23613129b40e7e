#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/simt/report/launch_log.h"
#include "common/torch/torch.h"

namespace ladder::cli {

struct TourRequest {
    std::vector<int> phases;  ///< empty: all
    torch::Device device = torch::kCPU;
    std::string profile;  ///< what the CPU machine imitates; empty on a GPU
};

/// What one kernel did on the tour.
struct RungResult {
    int phase = 0;
    std::string kernel = {};
    std::string changes = {};
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes = {};
    std::string dtype = {};
    bool passed = false;
    double max_abs_error = 0;
    double bound = 0;
    std::string report = {};  ///< the comparison's own words
    std::uint64_t global_bytes_read = 0;
    std::uint64_t global_bytes_written = 0;
    bool on_gpu = false;
    bool bytes_counted = false;  ///< counted by the checked CPU machine; by formula otherwise
    std::uint64_t shared_bytes_per_block = 0;
    std::uint64_t blocks = 0;
    std::uint64_t threads_per_block = 0;
    int busy_multiprocessors = 0;  ///< that get at least one block
    int multiprocessors = 0;
    double milliseconds = 0;
    int timed_runs = 1;
    std::vector<simt::LaunchRecord> launches = {};
};

struct TourResult {
    std::string commit, device, device_name, profile, input;
    std::vector<RungResult> rungs = {};
    bool passed() const;
};

/// Walks the ladder, printing each rung as it is done, and the ladder as a table at the end.
TourResult run_tour(const TourRequest& request);

/// Everything that run_tour found, as JSON. Throws std::runtime_error if the file cannot be written.
void write_json(const TourResult& result, const std::string& file);

}  // namespace ladder::cli
