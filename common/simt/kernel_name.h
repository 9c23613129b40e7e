#pragma once

#include <string>

namespace simt {

/// A kernel's name with its template arguments, "forward_kernel<f16, 64>", the same for both machines, from the
/// name that the linker knows it by. Empty for null, and for what is no mangled name.
std::string instance_from_symbol(const char* mangled);

/// The name by which this program exports the function; null if it does not. A program exports its kernels if it is
/// linked with ladder_export_kernels().
const char* exported_symbol(const void* function);

}  // namespace simt
