#pragma once

namespace simt {
inline namespace cpu {

/// A small number for a tensor's name, so that an access can be counted without looking the name up.
int tensor_id(const char* name);
const char* tensor_name(int id);
inline constexpr int kMaxTensorNames = 128;

}  // namespace cpu
}  // namespace simt
