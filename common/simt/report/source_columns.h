#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simt {

/// Where in their lines the code stands that the instruction at `address` was made of: its column in the innermost
/// function, then those of the calls of the functions that were inlined, from the inside out. Columns count from 1; 0:
/// the compiler does not say. Empty if the file has no notes of DWARF 5 about the address, or has compressed them.
///
/// @param file     an ELF file, as g++ and clang write it with -g1
/// @param address  as the file counts it
std::vector<unsigned> source_columns(const std::string& file, std::uint64_t address);

}  // namespace simt
