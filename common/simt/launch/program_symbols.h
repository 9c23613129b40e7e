#pragma once

#include <cstddef>

namespace simt {

/// The name by which the linker knows a function of this program or of a library that it has loaded, also one that is
/// its file's own; null if the file was stripped of such names.
const char* symbol_of(const void* function);

/// What the `__shared__` arrays of the kernel itself take, without those of functions that it calls. 0 if the file was
/// stripped, and in a build with AddressSanitizer.
std::size_t static_shared_bytes_of(const void* kernel);

}  // namespace simt
