#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ladder {

/// What ptxas said about the kernels of each phase, recorded in its rung/registers.json by
/// common/cli/measure_registers.py, since only a compiler for GPUs knows.
class RecordedRegisters {
  public:
    /// The records in the repository; empty where a phase has none. Throws std::runtime_error if one cannot be
    /// understood.
    static const RecordedRegisters& instance();
    explicit RecordedRegisters(const std::filesystem::path& repository);

    struct Figure {
        int per_thread;
        std::string source;  ///< "ptxas 13.0.88"; says so where the phase's kernels have changed since
    };

    /// Of a kernel with its template arguments, as launches name it, for a compute capability such as 89.
    std::optional<Figure> of(const std::string& kernel_instance, int compute_capability) const;

  private:
    void read(const std::filesystem::path& repository, const std::filesystem::path& phase);

    std::map<std::string, std::map<int, Figure>> figures_;
};

}  // namespace ladder
