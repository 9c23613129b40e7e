#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/attention/arguments.h"
#include "common/rung/phase.h"
#include "common/simt/device/occupancy.h"
#include "common/simt/report/launch_log.h"
#include "common/torch/torch.h"

namespace ladder {

/// The problem that the kernels are profiled on. What is absent gets a default that suits each phase.
struct ProfileProblem {
    std::int64_t batch = 1;
    std::int64_t heads = 2;
    std::optional<std::int64_t> kv_heads = {};  ///< as many as query heads
    std::optional<std::int64_t> queries = {};   ///< as many as keys; one for the kernels made for few queries
    std::int64_t keys = 256;
    std::int64_t head_dim = 64;
    std::optional<torch::ScalarType> dtype = {};  ///< the first of Phase::dtypes
    std::optional<bool> causal = {};              ///< as the phase has it, see CausalMask
};

/// What ./ladder profile is asked for.
struct ProfileRequest {
    std::vector<int> phases;  ///< empty: all
    torch::Device device = torch::kCPU;
    std::string profile;  ///< what the CPU machine imitates; empty on a GPU
    ProfileProblem problem;
};

/// A profile's kernel launches that differ in nothing but their place in the sequence.
struct LaunchProfile {
    simt::LaunchRecord launch;  ///< the first; its counters are those of all of them together
    int count = 1;
    std::optional<int> registers = {};  ///< per thread
    std::string registers_source = {};
    std::optional<simt::Occupancy> occupancy = {};  ///< where the device's figures are known
    double waves = 0;                               ///< blocks over those that the device holds at a time
};

/// What one rung of the ladder did.
struct RungProfile {
    int phase = 0;
    std::string kernel = {};   ///< the entry
    std::string refusal = {};  ///< why it did not run, if it did not
    std::map<std::string, std::vector<std::int64_t>> shapes = {};
    torch::ScalarType dtype = torch::kFloat32;
    double flops = 0;
    bool tensor_cores = false;
    GlobalBytes formula = {};
    Growth growth = {};
    std::map<std::string, std::uint64_t> tensor_bytes = {};
    std::vector<Repetition> repetitions = {};
    std::map<std::string, std::int64_t> tiles = {};
    std::vector<LaunchProfile> launches = {};

    bool ran() const { return refusal.empty(); }
    bool counted() const;
    simt::Counters total() const;
    /// FLOPs of the algorithm per byte that the threads ask global memory for, of the counted bytes.
    double intensity() const;
};

/// Random tensors of the problem, of elements that suit the phase. Drawn on the CPU with a fixed seed: the same on
/// every device and every run.
RungInput random_input(const ProfileProblem& problem, const Phase& phase, torch::Device device);

/// The rungs of the phase, and those that it has beside the tour, ready to run on random tensors.
std::vector<Rung> rungs_to_profile(const ProfileRequest& request, const Phase& phase);

/// Runs the rung once and looks at its launches. A problem that the kernel or the device refuses is a finding, too: it
/// goes to RungProfile::refusal.
RungProfile profile_rung(const Rung& rung, const ProfileRequest& request,
                         simt::LaunchLog::Detail detail = simt::LaunchLog::Detail::requests);

/// FLOPs per byte above which a device's multipliers, and not its memory, set the pace: its tensor cores, or those of
/// float32.
double ridge_point(const simt::DeviceProfile& device, bool tensor_cores = false);

}  // namespace ladder
