#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "common/simt/machine_error.h"

namespace ladder::mutants {

/// A phase's kernels with one change in their source. Number 0 has none: it shows that the trials themselves are sound.
struct Mutant {
    const char* name;
    std::optional<simt::Fault> fault;  ///< what the CPU machine must say; nothing: the reference must reject a result
    const char* problem;               ///< why the source could not be changed; empty if it could
};

/// The mutants of this program, and which of them the phase's host entries reach. Generated, see add_mutants.cmake.
std::span<const Mutant> mutants();
extern std::size_t active;

}  // namespace ladder::mutants
