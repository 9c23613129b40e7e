#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ladder::cli {

/// What ptxas said about the kernels, recorded by common/cli/measure_registers.py, since only a compiler for GPUs
/// knows.
class RecordedRegisters {
  public:
    /// The record in the repository; empty if there is none. Throws std::runtime_error if it cannot be understood.
    static const RecordedRegisters& instance();
    explicit RecordedRegisters(const std::filesystem::path& repository);

    /// Registers of a thread of the kernel, such as "fa2_forward_kernel<f16, 64>", for a compute capability such as 89.
    std::optional<int> of(const std::string& kernel_instance, int compute_capability) const;

    /// "ptxas 13.0.88"; says so where the kernels have changed since.
    const std::string& source() const { return source_; }

  private:
    std::string source_;
    std::map<std::string, std::map<int, int>> registers_;
};

}  // namespace ladder::cli
