#pragma once

#include <string>

namespace simt {

/// A kernel's name with its template arguments, "my_kernel<f16, 64>", the same for both machines, from the
/// name that the linker knows it by. Empty for null, and for what is no mangled name.
std::string instance_from_symbol(const char* mangled);

}  // namespace simt
