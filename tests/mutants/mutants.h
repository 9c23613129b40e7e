#pragma once

#include <cstddef>
#include <span>

#include "common/simt/report/machine_error.h"
#include "common/simt/views/tensor_argument.h"

namespace ladder::mutants {

/// A phase's kernels with one change in their source, compiled for one element type. The first ones of a program, whose
/// names begin with "original", have none: they show that the trials themselves are sound.
struct Mutant {
    const char* name;
    simt::ElementType element;
};

// What a program of mutants consists of besides its trials. Written by generate.py.

std::span<const Mutant> mutants();

/// The number of the mutant that the phase's host entries reach.
extern std::size_t active;

/// The enumerator's own name, as the catalogue has it: "out_of_bounds".
const char* identifier_of(simt::Fault);

}  // namespace ladder::mutants
