#pragma once

#include <string>

#include "common/cli/sweep.h"
#include "common/rung/profile.h"

namespace ladder::cli {

/// The device, and where its ridge lies.
void print_profile_header(const ProfileRequest& request);
void print_profile_problem(const ProfileProblem& problem);

/// Every kind of launch of the rung, tensor by tensor, and what the numbers come to.
void print_rung_profile(const RungProfile& rung, const ProfileRequest& request);

/// A table of the points with bars, and the slope beside the one that the law predicts.
void print_sweep(const Sweep& sweep);

/// What the numbers say, in a few sentences: what is read again and why, what is scattered, what the scores
/// cost, bank conflicts, how full
/// the device is, and on which side of the ridge the kernel stands. Without counters, nothing.
std::string conclusion(const RungProfile& rung, const simt::DeviceProfile& device);

}  // namespace ladder::cli
